"""Login: throttle, seat, password, and then a session or the question for the second factor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from daybreak.access import throttle
from daybreak.access.authorization import second_factor_owed
from daybreak.access.services import AccessServices
from daybreak.access.sessions import issue_token, issue_waiting_token
from daybreak.access.trail import event
from daybreak.credentials import passwords
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Forbidden, Unauthenticated
from daybreak.domain.identity import LONGEST_TYPED_EMAIL, Caller, Device, Seat, Session, is_id
from daybreak.ports.state import Stores

Kind = Literal["api", "dashboard"]


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """A login that is complete, on its first context."""

    session: Session
    seat_id: str
    client_id: str
    device_id: str
    token: str


@dataclass(frozen=True, slots=True)
class SecondFactorOwed:
    """A login that waits; `enrolled` says whether the seat has a second factor to show."""

    session: Session
    seat_id: str
    token: str
    enrolled: bool


async def login(
    services: AccessServices,
    *,
    email: str,
    password: str,
    caller: Caller,
    device_id: str | None = None,
    kind: Kind = "api",
) -> SessionStarted | SecondFactorOwed:
    """Email and password to a session. `device_id` is the one that the client says it holds.

    Raises RateLimited; Unauthenticated(invalid_credentials), the same in content and time whether
    the seat exists or not; Forbidden(no_active_account); Unavailable.
    """
    now = services.clock()
    limits = services.settings.limits
    typed = email.strip()

    def find(stores: Stores) -> tuple[Seat | None, Device | None]:
        seat = stores.seats.by_email(typed) if _could_be_email(typed) else None
        return seat, known_device(stores, device_id, seat) if seat is not None else None

    seat, known = await services.state.aread(find)
    rules = (
        throttle.known_device_rules(limits, seat_id=known.seat_id, device_id=known.device_id)
        if known is not None
        else throttle.login_rules(limits, email=email, address=caller.address)
    )
    await throttle.admit(services.state, rules, now)
    good = await services.hashing.verify(seat.password_hash if seat else None, password)
    if seat is None or not good or seat.disabled:
        await services.state.awrite(
            lambda stores: stores.audit.append(event("login", "invalid_credentials", at=now, caller=caller, seat=seat))
        )
        raise _invalid_credentials()
    rehashed = None
    if seat.password_hash is not None and passwords.needs_rehash(seat.password_hash):
        rehashed = await services.hashing.hash(password)
    opening = _Opening(services, seat, caller, known, kind, services.clock(), rehashed, rules[0].key)
    outcome = await services.state.awrite(opening.write)
    if not isinstance(outcome, Session):
        raise outcome
    return opening.answer(outcome)


@dataclass(slots=True)
class _Opening:
    """The one transaction that turns a right password into a session."""

    services: AccessServices
    seat: Seat
    caller: Caller
    known: Device | None
    kind: Kind
    now: datetime
    rehashed: str | None
    throttle_key: str
    first: str | None = None

    def write(self, stores: Stores) -> Session | Forbidden | Unauthenticated:
        """The new session; or why there is none, with the refusal on the trail."""
        seat = stores.seats.held(self.seat.seat_id)
        if seat is None or seat.disabled or seat.password_hash != self.seat.password_hash:
            # Changed while the password was verified.
            stores.audit.append(self._event("invalid_credentials"))
            return _invalid_credentials()
        landing = stores.seats.landing(seat)
        if landing is None:
            stores.audit.append(self._event("no_active_account"))
            return Forbidden("None of the accounts in reach of this seat is active.", code="no_active_account")
        if self.rehashed is not None:
            stores.seats.set_password_hash(seat.seat_id, self.rehashed, self.now)
        owed = second_factor_owed(seat, required=landing.second_factor_required)
        settings = self.services.settings
        session = Session(
            sid=self.services.new_id(),
            seat_id=seat.seat_id,
            started_at=self.now,
            expires_at=self.now + (settings.waiting_lifetime if owed else settings.session_lifetime),
            amr=("pwd",),
            awaiting_second_factor=owed,
            kind=self.kind,
            reauthenticated_at=self.now,
        )
        if not owed:
            device = device_of(self.services, seat, self.known, self.caller, self.now)
            stores.sessions.remember_device(device)
            session = replace(session, device_id=device.device_id)
            self.first = landing.client_id
            stores.seats.set_last_client(seat.seat_id, self.first)
        stores.sessions.start(session)
        # Success forgives what was mistyped before, for this seat from this address alone.
        stores.throttle.clear(self.throttle_key)
        stores.audit.append(self._event("ok" if not owed else "second_factor_required", session))
        self.seat = seat
        return session

    def answer(self, session: Session) -> SessionStarted | SecondFactorOwed:
        if self.first is None or session.device_id is None:
            return SecondFactorOwed(
                session=session,
                seat_id=session.seat_id,
                token=issue_waiting_token(self.services, session, now=self.now),
                enrolled=self.seat.second_factor_enrolled,
            )
        return started(self.services, session, self.first, session.device_id, self.now)

    def _event(self, result: str, session: Session | None = None) -> AuditEvent:
        return event(
            "login",
            result,
            at=self.now,
            caller=self.caller,
            seat=self.seat,
            client_id=self.first,
            subject=f"session:{session.sid}" if session else None,
            details={"kind": self.kind},
        )


def started(
    services: AccessServices, session: Session, client_id: str, device_id: str, now: datetime
) -> SessionStarted:
    """The answer of a complete login."""
    return SessionStarted(
        session=session,
        seat_id=session.seat_id,
        client_id=client_id,
        device_id=device_id,
        token=issue_token(services, session, client_id=client_id, now=now),
    )


def known_device(stores: Stores, device_id: str | None, seat: Seat) -> Device | None:
    """The device that a client says it is, when the seat has logged in from it; any text that is no id is nobody's."""
    return stores.sessions.device(device_id, seat.seat_id) if device_id is not None and is_id(device_id) else None


def device_of(services: AccessServices, seat: Seat, known: Device | None, caller: Caller, now: datetime) -> Device:
    """The device row of a login: the known one brought up to date, or a new one."""
    return Device(
        device_id=known.device_id if known else services.new_id(),
        seat_id=seat.seat_id,
        user_agent=caller.user_agent[:300],
        address=caller.address,
        first_seen_at=known.first_seen_at if known else now,
        last_seen_at=now,
    )


def _could_be_email(text: str) -> bool:
    # Databases refuse NUL and lone surrogates.
    return len(text) <= LONGEST_TYPED_EMAIL and text.isprintable()


def _invalid_credentials() -> Unauthenticated:
    return Unauthenticated("Email or password is not right.", code="invalid_credentials")
