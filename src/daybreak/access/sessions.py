"""Sessions: from a bearer token to a person on an account, contexts, switch, logout."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from daybreak.access import throttle
from daybreak.access.authorization import account_fault, session_fault
from daybreak.access.reach import reach_of
from daybreak.access.services import AccessServices
from daybreak.access.trail import event
from daybreak.credentials import session_jwt
from daybreak.credentials.session_jwt import Claims, InvalidToken, TokenType
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Forbidden, RequestError, Unauthenticated
from daybreak.domain.identity import Caller, Device, Principal, Reach, Seat, Session, SessionStanding, is_id
from daybreak.ports.state import Stores


class SignedIn(msgspec.Struct, frozen=True):
    """A session that stands, on the account its token names; the account may be closed to it."""

    session: Session
    seat: Seat
    client_id: str
    device_id: str
    standing: SessionStanding

    @property
    def subject(self) -> str:
        """How the audit trail and links name it."""
        return f"session:{self.session.sid}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A session that waits for its second factor."""

    session: Session
    seat: Seat


@dataclass(frozen=True, slots=True)
class Context:
    """One account that the seat can be in."""

    reach: Reach
    current: bool


@dataclass(frozen=True, slots=True)
class Switched:
    """The token of another context of the same session, with the same end."""

    client_id: str
    seat_id: str
    token: str
    expires_at: datetime


def issue_token(services: AccessServices, session: Session, *, client_id: str, now: datetime) -> str:
    """A token of a session on an account; it ends when the session does."""
    return _encode(services, session, typ="session+jwt", client_id=client_id, now=now)


def issue_waiting_token(services: AccessServices, session: Session, *, now: datetime) -> str:
    """The token that opens nothing but the second factor's call."""
    return _encode(services, session, typ="mfa+jwt", client_id=None, now=now)


async def signed_in(services: AccessServices, token: str) -> SignedIn:
    """The session of a bearer token. Raises Unauthenticated, Forbidden(second_factor_required)."""
    now = services.clock()
    # A waiting one stands for somebody, too: what it may not do yet is told by its session.
    claims = _decode(services, token, now, "session+jwt", "mfa+jwt")
    standing = await services.state.aread(lambda stores: stores.sessions.standing(claims.sid, claims.client_id))
    fault = session_fault(standing, now)
    if fault is not None:
        raise fault
    client_id, device_id = claims.client_id, claims.device_id
    if (
        standing is None
        or standing.seat.seat_id != claims.seat_id
        # The waiting token of a login that is complete by now.
        or client_id is None
        or device_id is None
    ):
        raise _invalid_token()
    return SignedIn(standing.session, standing.seat, client_id, device_id, standing)


async def authenticate(services: AccessServices, token: str) -> Principal:
    """Whoever a session token stands for, on its account: one statement, nothing kept from before.

    Raises Unauthenticated, or Forbidden when the account is closed to the session.
    """
    return enter(await signed_in(services, token))


def enter(who: SignedIn) -> Principal:
    """The principal of a session on its account. Raises Forbidden when it is closed to it."""
    account, grant = who.standing.account, who.standing.grant
    fault = account_fault(account, grant, who.session)
    if fault is not None:
        raise fault
    assert account is not None
    assert grant is not None
    return Principal(
        kind="session",
        subject=who.subject,
        seat=who.seat,
        account=account,
        grant=grant,
        session=who.session,
    )


async def waiting(services: AccessServices, token: str) -> Waiting:
    """The session of a token that waits for the second factor. Raises Unauthenticated."""
    now = services.clock()
    claims = _decode(services, token, now, "mfa+jwt")
    standing = await services.state.aread(lambda stores: stores.sessions.standing(claims.sid, None))
    if standing is None or standing.seat.seat_id != claims.seat_id:
        raise _invalid_token()
    session = standing.session
    if (
        not session.awaiting_second_factor
        or session.ended_at is not None
        or session.expires_at <= now
        or standing.seat.disabled
    ):
        raise Unauthenticated("This login is over. Sign in again.", code="session_ended")
    return Waiting(session, standing.seat)


async def contexts(services: AccessServices, who: SignedIn) -> list[Context]:
    """Every active account in the seat's reach, by name."""
    reach = await reach_of(services.state, who.seat.seat_id)
    return [Context(entry, current=entry.account.client_id == who.client_id) for entry in reach if entry.account.active]


async def switch(services: AccessServices, who: SignedIn, client_id: str, caller: Caller) -> Switched:
    """A token for another account of the seat. The token that was sent keeps working.

    Raises Forbidden: `not_your_account` (foreign and unknown alike), `account_inactive`,
    `second_factor_required`.
    """
    now = services.clock()

    def work(stores: Stores) -> RequestError | None:
        # A text that is no id is nobody's account, and no database needs to be asked about it.
        known_id = client_id if is_id(client_id) else None
        standing = stores.sessions.standing(who.session.sid, known_id)
        fault = session_fault(standing, now)
        if fault is None and standing is not None:
            fault = account_fault(standing.account, standing.grant, standing.session)
            if fault is None:
                stores.seats.set_last_client(who.seat.seat_id, client_id)
        stores.audit.append(
            event(
                "context.switched",
                "ok" if fault is None else fault.code,
                at=now,
                caller=caller,
                seat=who.seat,
                # A refused one is no business of the account that was asked for.
                client_id=client_id if fault is None else who.client_id,
                subject=who.subject,
            )
        )
        return fault

    fault = await services.state.awrite(work)
    if fault is not None:
        raise fault
    token = issue_token(services, who.session, client_id=client_id, now=now)
    return Switched(client_id, who.seat.seat_id, token, who.session.expires_at)


async def logout(services: AccessServices, who: SignedIn, caller: Caller) -> None:
    """Ends the session: every token and link that comes from it is dead at once."""
    now = services.clock()

    def work(stores: Stores) -> None:
        stores.sessions.end(who.session.sid, now, "logout")
        stores.audit.append(own_event("logout", now, caller, who))

    await services.state.awrite(work)


async def list_open(services: AccessServices, who: SignedIn) -> list[tuple[Session, Device | None]]:
    """The seat's open sessions and the devices they came from."""
    now = services.clock()
    return await services.state.aread(lambda stores: stores.sessions.list_open(who.seat.seat_id, now))


async def end_one(services: AccessServices, who: SignedIn, sid: str, caller: Caller) -> bool:
    """Ends one session of the same seat; False when it is not one or has ended already."""
    now = services.clock()

    def work(stores: Stores) -> bool:
        standing = stores.sessions.standing(sid, None) if is_id(sid) else None
        if standing is None or standing.seat.seat_id != who.seat.seat_id:
            return False
        ended = stores.sessions.end(sid, now, "ended by its owner")
        if ended:
            stores.audit.append(own_event("session.ended", now, caller, who))
        return ended

    return await services.state.awrite(work)


async def end_others(services: AccessServices, who: SignedIn, caller: Caller) -> int:
    """Ends every other session of the seat; how many."""
    now = services.clock()

    def work(stores: Stores) -> int:
        ended = stores.sessions.end_all(who.seat.seat_id, now, "ended by its owner", keep_sid=who.session.sid)
        stores.audit.append(own_event("session.ended_others", now, caller, who))
        return ended

    return await services.state.awrite(work)


async def reauthenticate(services: AccessServices, who: SignedIn, password: str, caller: Caller) -> None:
    """Asks for the password again before secrets change.

    Raises RateLimited, Unauthenticated(invalid_credentials), Unavailable(busy).
    """
    now = services.clock()
    rules = throttle.password_rules(services.settings.limits, seat_id=who.seat.seat_id, sid=who.session.sid)
    await throttle.admit(services.state, rules, now)
    good = await services.hashing.verify(who.seat.password_hash, password)

    def work(stores: Stores) -> None:
        if good:
            stores.sessions.mark_reauthenticated(who.session.sid, now)
        result = "ok" if good else "invalid_credentials"
        stores.audit.append(own_event("reauthenticated", now, caller, who, result))

    await services.state.awrite(work)
    if not good:
        raise Unauthenticated("The password is not right.", code="invalid_credentials")


def require_recent(services: AccessServices, session: Session) -> None:
    """Raises Forbidden(reauthentication_required) unless the password was shown lately."""
    shown_at = session.reauthenticated_at or session.started_at
    if shown_at + services.settings.reauthentication_lifetime <= services.clock():
        raise Forbidden("Enter your password again first.", code="reauthentication_required")


def own_event(action: str, now: datetime, caller: Caller, who: SignedIn, result: str = "ok") -> AuditEvent:
    """What somebody who is signed in did to their own seat or session, on the trail of the account they are on."""
    return event(
        action,
        result,
        at=now,
        caller=caller,
        seat=who.seat,
        client_id=who.client_id,
        subject=who.subject,
    )


def _encode(
    services: AccessServices,
    session: Session,
    *,
    typ: TokenType,
    client_id: str | None,
    now: datetime,
) -> str:
    claims = Claims(
        seat_id=session.seat_id,
        sid=session.sid,
        jti=services.new_id(),
        amr=session.amr,
        auth_time=int(session.started_at.timestamp()),
        issued_at=int(now.timestamp()),
        expires_at=int(session.expires_at.timestamp()),
        client_id=client_id,
        device_id=session.device_id if typ == "session+jwt" else None,
    )
    return session_jwt.encode(
        claims,
        typ=typ,
        keyring=services.keyring.current(),
        issuer=services.settings.issuer,
    )


def _decode(services: AccessServices, token: str, now: datetime, *types: TokenType) -> Claims:
    """Claims of a token of one of these types. Raises Unauthenticated."""
    keyring = services.keyring.current()
    for typ in types:
        try:
            return session_jwt.decode(
                token, typ=typ, keyring=keyring, issuer=services.settings.issuer, now_seconds=now.timestamp()
            )
        except InvalidToken as refused:
            if refused.reason == "expired":
                raise Unauthenticated("This token has expired. Sign in again.", code="token_expired") from None
            if refused.reason != "type":
                break
    raise _invalid_token()


def _invalid_token() -> Unauthenticated:
    return Unauthenticated("This token is not good.", code="invalid_token")
