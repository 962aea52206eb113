"""Login with email and password: a session, or a pending login that needs a second factor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from daybreak.access import throttle
from daybreak.access.authorization import SECOND_FACTOR_METHODS
from daybreak.access.services import Services
from daybreak.credentials import passwords, session_jwt
from daybreak.credentials.session_jwt import Claims, TokenType
from daybreak.domain.audit import AuditEvent, EventOrigin
from daybreak.domain.email_address import is_email_address
from daybreak.domain.errors import Forbidden, Unauthenticated
from daybreak.domain.identity import Caller, Device, Seat, Session, is_id
from daybreak.settings import Settings
from daybreak.state.stores import Stores

SessionKind = Literal["api", "dashboard"]
# How long a login may wait for its second factor.
PENDING_LOGIN_LIFETIME = timedelta(minutes=10)
_MAX_USER_AGENT_LENGTH = 300


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """A completed login, on its initial account."""

    session: Session
    client_id: str
    device_id: str
    token: str


@dataclass(frozen=True, slots=True)
class SecondFactorPending:
    """A login that waits for its second factor. `enrolled`: whether the seat has one."""

    session: Session
    token: str
    enrolled: bool


async def login(
    services: Services,
    *,
    email: str,
    password: str,
    caller: Caller,
    device_id: str | None = None,
    kind: SessionKind = "api",
    held_sid: str | None = None,
) -> SessionStarted | SecondFactorPending:
    """Start a session for an email and password. `device_id` is the one that the client claims.

    The session `held_sid`, which the browser held before, ends.

    Raises RateLimited; Unauthenticated(invalid_credentials), with the same content and timing whether or not the seat
    exists; Forbidden(no_active_account, password_login_disabled); Unavailable.
    """
    require_password_login(services.settings)
    now = services.clock()
    settings = services.settings.access
    typed_email = email.strip()

    def find(stores: Stores) -> tuple[Seat | None, Device | None]:
        seat = stores.seats.by_email(typed_email) if is_email_address(typed_email) else None
        return seat, find_device(stores, device_id, seat)

    seat, device = await services.state.aread(find)
    rules = (
        throttle.known_device_rules(settings, seat_id=device.seat_id, device_id=device.device_id)
        if device is not None
        else throttle.login_rules(settings, email=email, address=caller.address)
    )
    await throttle.count_attempt(services.state, rules, now)
    correct = await services.hashing.verify(seat.password_hash if seat else None, password)
    if seat is None or not correct or seat.disabled:
        await services.record(EventOrigin(now, caller, seat).event("login", "invalid_credentials"))
        raise _invalid_credentials()
    rehashed = None
    if seat.password_hash is not None and passwords.needs_rehash(seat.password_hash):
        rehashed = await services.hashing.hash(password)
    now = services.clock()
    start = SessionStart(services, seat, caller, device, kind, now, ("pwd",), proved_at=now, held_sid=held_sid)
    return start.result(await services.commit(lambda stores: _start_session(stores, start, rehashed, rules[0].key)))


@dataclass(slots=True)
class SessionStart:
    """The start of a session of a seat that has proved its identity by the methods `amr`.

    `proved_at` is when it did so, None if that is unknown. The session `held_sid`, which the browser held before, ends.
    """

    services: Services
    seat: Seat
    caller: Caller
    device: Device | None
    kind: SessionKind
    now: datetime
    amr: tuple[str, ...]
    proved_at: datetime | None
    held_sid: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    client_id: str | None = None

    def write(self, stores: Stores, seat: Seat) -> Session | Forbidden:
        """Start and return the session of the locked `seat`, or return the refusal. Both are recorded."""
        initial = stores.seats.initial_account(seat)
        if initial is None:
            stores.audit.append(self.event("no_active_account"))
            return no_active_account()
        policy = self.services.settings.access.require_second_factor
        required = seat.second_factor_enrolled or initial.second_factor_required or policy == "always"
        pending = required and not SECOND_FACTOR_METHODS & set(self.amr)
        lifetime = PENDING_LOGIN_LIFETIME if pending else self.services.settings.access.session_lifetime
        session = Session(
            sid=self.services.new_id(),
            seat_id=seat.seat_id,
            started_at=self.now,
            expires_at=self.now + lifetime,
            amr=self.amr,
            awaiting_second_factor=pending,
            kind=self.kind,
            reauthenticated_at=self.proved_at,
            last_seen_at=self.now,
        )
        if self.held_sid is not None:
            _end_held_session(stores, self.held_sid, seat, self.caller, self.now)
        if not pending:
            device = updated_device(self.services, seat, self.device, self.caller, self.now)
            stores.sessions.save_device(device)
            session = replace(session, device_id=device.device_id)
            self.client_id = initial.client_id
            stores.seats.set_last_client(seat.seat_id, self.client_id)
        stores.sessions.start(session)
        stores.audit.append(self.event("second_factor_required" if pending else "ok", session))
        self.seat = seat
        return session

    def result(self, session: Session) -> SessionStarted | SecondFactorPending:
        token = issue_token(self.services, session, client_id=self.client_id, now=self.now)
        if self.client_id is None or session.device_id is None:
            return SecondFactorPending(session, token, enrolled=self.seat.second_factor_enrolled)
        return SessionStarted(session, self.client_id, session.device_id, token)

    def event(self, result: str, session: Session | None = None) -> AuditEvent:
        subject = f"session:{session.sid}" if session else None
        origin = EventOrigin(self.now, self.caller, self.seat, self.client_id, subject)
        return origin.event("login", result, {"kind": self.kind, **self.details})


def _start_session(
    stores: Stores, start: SessionStart, rehashed: str | None, throttle_key: str
) -> Session | Forbidden | Unauthenticated:
    """Start and return the session after the password was verified, or return the refusal. Both are recorded."""
    verified = start.seat
    seat = stores.seats.get_for_update(verified.seat_id)
    if seat is None or seat.disabled or seat.password_hash != verified.password_hash:
        # Changed while the password was verified.
        stores.audit.append(start.event("invalid_credentials"))
        return _invalid_credentials()
    outcome = start.write(stores, seat)
    if isinstance(outcome, Session):
        if rehashed is not None:
            stores.seats.set_password_hash(seat.seat_id, rehashed)
        # A correct password clears earlier failures of this seat from this address.
        stores.throttle.clear(throttle_key)
    return outcome


def issue_token(services: Services, session: Session, *, client_id: str | None, now: datetime) -> str:
    """Issue a token of a session on an account, which expires with the session.

    Without an account, it is the token of a pending login, which is accepted only with the second factor.
    """
    claims = Claims(
        seat_id=session.seat_id,
        sid=session.sid,
        jti=services.new_id(),
        amr=session.amr,
        auth_time=int(session.started_at.timestamp()),
        issued_at=int(now.timestamp()),
        expires_at=int(session.expires_at.timestamp()),
        client_id=client_id,
        device_id=session.device_id if client_id is not None else None,
    )
    typ: TokenType = "mfa+jwt" if client_id is None else "session+jwt"
    return session_jwt.encode(claims, typ=typ, keyring=services.keyring.current(), issuer=services.settings.base_url)


def require_password_login(settings: Settings) -> None:
    """Raise Forbidden(password_login_disabled) if users sign in with single sign-on only."""
    if not settings.oidc.password_login:
        raise Forbidden(
            f"Password login is disabled. Open {settings.base_url}/dashboard to sign in with {settings.oidc.name}, "
            "and use an API token in scripts.",
            code="password_login_disabled",
        )


def find_device(stores: Stores, device_id: str | None, seat: Seat | None) -> Device | None:
    """Return the device that the client claims to be, if it is one of the seat's known devices.

    Without a seat it is searched for too, so that the time does not say whether the seat exists.
    """
    if device_id is None or not is_id(device_id):
        return None
    seat_id = "" if seat is None else seat.seat_id
    return stores.sessions.known_device(device_id, seat_id, at_most=throttle.MAX_KNOWN_DEVICES)


def updated_device(services: Services, seat: Seat, known: Device | None, caller: Caller, now: datetime) -> Device:
    """Return the device of a login, updated if it is known, new otherwise."""
    return Device(
        device_id=known.device_id if known else services.new_id(),
        seat_id=seat.seat_id,
        user_agent=caller.user_agent[:_MAX_USER_AGENT_LENGTH],
        address=caller.address,
        first_seen_at=known.first_seen_at if known else now,
        last_seen_at=now,
    )


def no_active_account() -> Forbidden:
    """Return the error of a seat without an active account."""
    return Forbidden("None of your accounts is active. Ask your operator.", code="no_active_account")


def _end_held_session(stores: Stores, sid: str, seat: Seat, caller: Caller, now: datetime) -> None:
    """End the session that a browser held when `seat` signed in with it. It may belong to another seat."""
    held = stores.sessions.resolve(sid, None)
    if held is None or not stores.sessions.end(sid, now, "signed in again"):
        return
    origin = EventOrigin(now, caller, held.seat, None, f"session:{sid}")
    event = origin.event("session.ended", "ok", {"seat": held.seat.email, "reason": "signed in again"})
    stores.audit.append(replace(event, actor=seat.email))


def _invalid_credentials() -> Unauthenticated:
    return Unauthenticated("Email or password is wrong.", code="invalid_credentials")
