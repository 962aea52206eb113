"""Sessions: authentication by bearer token, contexts, switching accounts, logout, and the end of a dashboard session
without activity (ASVS 5.0, 7.3.1).
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec.structs import replace

from daybreak.access import throttle
from daybreak.access.authorization import account_fault, is_idle, session_fault
from daybreak.access.end_credentials import EndReason, end_credentials
from daybreak.access.login import issue_token, require_password_login
from daybreak.access.services import Services
from daybreak.credentials import session_jwt
from daybreak.credentials.session_jwt import Claims, InvalidToken, TokenType
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Forbidden, RequestError, Unauthenticated, Unavailable
from daybreak.domain.identity import (
    Caller,
    Device,
    GrantedAccount,
    Principal,
    ResolvedSession,
    Seat,
    SecondFactorPolicy,
    Session,
    is_id,
)
from daybreak.state.stores import Stores

# How long a password counts as recently entered.
REAUTHENTICATION_LIFETIME = timedelta(minutes=10)
IDLE = "idle"
"""The `end_reason` of sessions that ended without activity."""
_RENEWED_BY = {"reauthenticated": "password confirmed", "password.changed": EndReason.PASSWORD_CHANGED}
"""The `end_reason` of the old id of a session, by the action that renewed it."""
_RECORDED_EVERY = timedelta(minutes=1)


class ActiveSession(msgspec.Struct, frozen=True):
    """A valid session on the account of its token. The session may not be allowed to use that account."""

    resolved: ResolvedSession
    client_id: str

    @property
    def session(self) -> Session:
        return self.resolved.session

    @property
    def seat(self) -> Seat:
        return self.resolved.seat

    @property
    def subject(self) -> str:
        """The name of the session in links and in the audit trail."""
        return f"session:{self.session.sid}"

    def origin(self, at: datetime, caller: Caller) -> EventOrigin:
        """Return the event origin of changes by the seat to its own sessions and secrets."""
        return EventOrigin(at, caller, self.seat, self.client_id, self.subject)


async def active_session(services: Services, token: str) -> ActiveSession:
    """Return the session of a bearer token. Raises Unauthenticated, Forbidden(second_factor_required)."""
    now = services.clock()
    # A pending login is resolved as well, so that it is refused with second_factor_required.
    claims = _decode(services, token, now, "session+jwt", "mfa+jwt")
    resolved = await services.state.aread(lambda stores: stores.sessions.resolve(claims.sid, claims.client_id))
    if resolved is not None and await services.apply_revocations(resolved.revoked_keys):
        _decode(services, token, now, "session+jwt", "mfa+jwt")
    fault = session_fault(resolved, now, dashboard_idle=services.settings.access.dashboard_idle)
    if fault is not None:
        raise fault
    # The token of a pending login has no account, also if the login has been completed since.
    if resolved is None or resolved.seat.seat_id != claims.seat_id or claims.client_id is None:
        raise _invalid_token()
    return ActiveSession(resolved, claims.client_id)


async def authenticate(services: Services, token: str) -> Principal:
    """Return the principal of a session token on its account, from one statement and no cache.

    Raises Unauthenticated, or Forbidden when the session may not use the account.
    """
    return principal_of(await active_session(services, token), services.settings.access.require_second_factor)


def principal_of(active: ActiveSession, policy: SecondFactorPolicy) -> Principal:
    """Return the principal of a session on its account. Raises Forbidden when it may not use the account."""
    account, grant = active.resolved.account, active.resolved.grant
    fault = account_fault(account, grant, active.session, policy)
    if fault is not None:
        raise fault
    assert account is not None
    assert grant is not None
    return Principal(
        kind="session", subject=active.subject, seat=active.seat, account=account, grant=grant, session=active.session
    )


async def pending_login(services: Services, token: str) -> ResolvedSession:
    """Return the login that waits for its second factor. Raises Unauthenticated."""
    now = services.clock()
    claims = _decode(services, token, now, "mfa+jwt")
    resolved = await services.state.aread(lambda stores: stores.sessions.resolve(claims.sid, None))
    if resolved is None or resolved.seat.seat_id != claims.seat_id:
        raise _invalid_token()
    if not is_pending(resolved, now):
        raise login_ended()
    return resolved


def is_pending(resolved: ResolvedSession, now: datetime) -> bool:
    """Return whether a session may still be completed with a second factor."""
    session = resolved.session
    open_ = session.ended_at is None and session.expires_at > now and not resolved.seat.disabled
    return open_ and session.awaiting_second_factor


async def contexts(services: Services, active: ActiveSession) -> list[GrantedAccount]:
    """Return the accounts that the seat can switch to, by name: those that it has a grant on and that are active."""
    return [each for each in await services.granted_accounts(active.seat.seat_id) if each.account.active]


async def switch(services: Services, active: ActiveSession, client_id: str, caller: Caller) -> str:
    """Return a token of the session on another account of the seat. The token in the request stays valid.

    Raises Forbidden: `not_your_account` (foreign and unknown alike), `account_inactive`, `second_factor_required`;
    RateLimited.
    """
    now, seat_id = services.clock(), active.seat.seat_id
    accounts = await services.state.aread(lambda stores: stores.seats.count_granted_accounts(seat_id))
    await throttle.count_attempt(services.state, throttle.change_rules(seat_id=seat_id, accounts=accounts), now)

    def write(stores: Stores) -> RequestError | None:
        # Text that is not an id never reaches the database.
        known_id = client_id if is_id(client_id) else None
        resolved = stores.sessions.resolve(active.session.sid, known_id)
        fault = session_fault(resolved, now, dashboard_idle=services.settings.access.dashboard_idle)
        if fault is None and resolved is not None:
            policy = services.settings.access.require_second_factor
            fault = account_fault(resolved.account, resolved.grant, resolved.session, policy)
            if fault is None:
                stores.seats.set_last_client(active.seat.seat_id, client_id)
        # A refusal is recorded on the current account: the other one must not see it.
        recorded_on = client_id if fault is None else active.client_id
        origin = EventOrigin(now, caller, active.seat, recorded_on, active.subject)
        stores.audit.append(origin.event("context.switched", "ok" if fault is None else fault.code))
        return fault

    await services.commit(write)
    return issue_token(services, active.session, client_id=client_id, now=now)


async def logout(services: Services, active: ActiveSession, caller: Caller) -> None:
    """End the session. All its tokens and links become invalid immediately."""
    now = services.clock()

    def write(stores: Stores) -> None:
        stores.sessions.end(active.session.sid, now, "logout")
        stores.audit.append(active.origin(now, caller).event("logout", "ok"))

    await services.state.awrite(write)


async def list_open(services: Services, active: ActiveSession) -> list[tuple[Session, Device | None]]:
    """Return the seat's open sessions with the devices they were started on."""
    now = services.clock()
    found = await services.state.aread(lambda stores: stores.sessions.list_open(active.seat.seat_id, now))
    limit = services.settings.access.dashboard_idle
    return [(session, device) for session, device in found if not is_idle(session, now, dashboard_idle=limit)]


async def end_one(services: Services, active: ActiveSession, sid: str, caller: Caller) -> bool:
    """End one session of the same seat. Returns False when it is unknown or has ended already.

    Raises Forbidden(reauthentication_required).
    """
    require_recent_password(services, active.session)
    now = services.clock()

    def write(stores: Stores) -> bool:
        resolved = stores.sessions.resolve(sid, None) if is_id(sid) else None
        if resolved is None or resolved.seat.seat_id != active.seat.seat_id:
            return False
        ended = stores.sessions.end(sid, now, EndReason.ENDED_BY_OWNER)
        if ended:
            stores.audit.append(active.origin(now, caller).event("session.ended", "ok"))
        return ended

    return await services.state.awrite(write)


async def end_others(services: Services, active: ActiveSession, caller: Caller) -> int:
    """End every other session of the seat, and links that set a password. Returns the number of sessions.

    Raises Forbidden(reauthentication_required).
    """
    require_recent_password(services, active.session)
    now = services.clock()

    def write(stores: Stores) -> int:
        ended = end_credentials(stores, active.seat.seat_id, EndReason.ENDED_BY_OWNER, now, keep_sid=active.session.sid)
        stores.audit.append(active.origin(now, caller).event("session.ended_others", "ok"))
        return ended

    return await services.state.awrite(write)


async def reauthenticate(services: Services, active: ActiveSession, password: str, caller: Caller) -> Session:
    """Verify the password again, which allows changes to secrets for a while. A dashboard session gets a new id.

    Returns the session. Raises RateLimited, Unauthenticated (`invalid_credentials`, `session_ended`),
    Forbidden(password_login_disabled), Unavailable(busy).
    """
    require_password_login(services.settings)
    now = services.clock()
    rules = throttle.password_rules(services.settings.access, seat_id=active.seat.seat_id, sid=active.session.sid)
    await throttle.count_attempt(services.state, rules, now)
    correct = await services.hashing.verify(active.seat.password_hash, password)

    if not correct:
        await services.record(active.origin(now, caller).event("reauthenticated", "invalid_credentials"))
        raise Unauthenticated("The password is wrong.", code="invalid_credentials")
    return await services.commit(lambda stores: mark_reauthenticated(services, stores, active, caller, now))


def mark_reauthenticated(
    services: Services,
    stores: Stores,
    active: ActiveSession,
    caller: Caller,
    now: datetime,
    action: Literal["reauthenticated", "password.changed"] = "reauthenticated",
    details: Mapping[str, object] | None = None,
) -> Session | Unauthenticated:
    """Record that the user proved the identity again. Returns the session, or the error if it had ended."""
    stores.sessions.mark_reauthenticated(active.session.sid, now)
    confirmed = replace(active.session, reauthenticated_at=now)
    session = renew(services, stores, confirmed, now, _RENEWED_BY[action])
    recorded = dict(details or {})
    if isinstance(session, Session) and session.sid != active.session.sid:
        recorded["session"] = f"session:{session.sid}"
    result = "ok" if isinstance(session, Session) else session.code
    stores.audit.append(active.origin(now, caller).event(action, result, recorded))
    return session


def renew(
    services: Services, stores: Stores, session: Session, now: datetime, reason: str
) -> Session | Unauthenticated:
    """End a dashboard session and start it again with a new id. Returns the new session, or the error if it had ended.

    The old id and the links issued with it become invalid immediately; `reason` is recorded with it. An API session is
    returned unchanged: all tokens of a login share its id, and the client keeps them. An attacker who planted or read
    the old id of a dashboard session loses the session at this step (ASVS 5.0, 7.2.4).
    """
    if session.kind == "api":
        return session
    renewed = replace(session, sid=services.new_id(), last_seen_at=now)
    return renewed if stores.sessions.replace(session.sid, renewed, now, reason) else _session_ended()


def require_recent_password(services: Services, session: Session) -> None:
    """Raise Forbidden(reauthentication_required) unless the password was entered recently, here or at the provider.

    A sign-in with the provider is not enough: the provider may have had a session.
    """
    entered_at = session.reauthenticated_at or (session.started_at if "pwd" in session.amr else None)
    if entered_at is None or entered_at + REAUTHENTICATION_LIFETIME <= services.clock():
        raise Forbidden("Enter your password again first.", code="reauthentication_required")


def _session_ended() -> Unauthenticated:
    """Return the error of a session that ended during the request."""
    return Unauthenticated("This session has ended. Sign in again.", code="session_ended")


def login_ended() -> Unauthenticated:
    """Return the error of a login that has expired or was completed before."""
    return Unauthenticated("This login has ended. Sign in again.", code="session_ended")


def _decode(services: Services, token: str, now: datetime, *types: TokenType) -> Claims:
    """Return the claims of a token of one of these types. Raises Unauthenticated."""
    keyring, issuer = services.keyring.current(), services.settings.base_url
    try:
        return session_jwt.decode(token, *types, keyring=keyring, issuer=issuer, now_seconds=now.timestamp())
    except InvalidToken as error:
        if error.reason == "expired":
            raise Unauthenticated("This token has expired. Sign in again.", code="token_expired") from None
    raise _invalid_token()


def _invalid_token() -> Unauthenticated:
    return Unauthenticated("Invalid token.", code="invalid_token")


def is_recorded(session: Session, now: datetime) -> bool:
    """Return whether the activity of the last minute is recorded already."""
    return now < session.last_used_at + _RECORDED_EVERY


async def record_activity(services: Services, session: Session, now: datetime) -> None:
    """Record that a dashboard session was used, at most once a minute.

    Without the state database nothing is recorded, and the session ends earlier. The next request tries again.
    """
    with suppress(Unavailable):
        await services.state.awrite(
            lambda stores: stores.sessions.record_activity(session.sid, now, not_after=now - _RECORDED_EVERY)
        )


async def end_idle(services: Services, resolved: ResolvedSession, caller: Caller, now: datetime) -> None:
    """Record that a session has ended without activity. It is refused, whether or not that can be recorded."""
    sid, limit = resolved.session.sid, services.settings.access.dashboard_idle
    origin = EventOrigin(now, caller, resolved.seat, None, f"session:{sid}")
    event = replace(origin.event("session.ended", "ok", {"reason": IDLE}), actor="service")

    def write(stores: Stores) -> None:
        if stores.sessions.end_unused(sid, now, IDLE, since=now - limit):
            stores.audit.append(event)

    with suppress(Unavailable):
        await services.state.awrite(write)
