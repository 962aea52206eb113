"""A new password: by its owner, who shows the old one; by an operator, see `operators`."""

from __future__ import annotations

from daybreak.access import throttle
from daybreak.access.services import AccessServices
from daybreak.access.sessions import SignedIn, own_event
from daybreak.credentials import passwords
from daybreak.domain.errors import Conflict, FieldFault, InvalidRequest, Unauthenticated
from daybreak.domain.identity import Caller
from daybreak.ports.state import Stores


async def change_own(services: AccessServices, who: SignedIn, *, current: str, new: str, caller: Caller) -> int:
    """Sets a new password and ends every other session of the seat; how many ended.

    Raises Unauthenticated(invalid_credentials), InvalidRequest(weak_password), RateLimited,
    Unavailable(busy).
    """
    now = services.clock()
    check_new(new, email=who.seat.email)
    rules = throttle.password_rules(services.settings.limits, seat_id=who.seat.seat_id, sid=who.session.sid)
    await throttle.admit(services.state, rules, now)
    good = await services.hashing.verify(who.seat.password_hash, current)
    new_hash = await services.hashing.hash(new) if good else None

    def work(stores: Stores) -> int | None:
        seat = stores.seats.held(who.seat.seat_id)
        unchanged = seat is not None and seat.password_hash == who.seat.password_hash
        ended: int | None = None
        if new_hash is not None and unchanged:
            stores.seats.set_password_hash(who.seat.seat_id, new_hash, now)
            stores.sessions.mark_reauthenticated(who.session.sid, now)
            ended = stores.sessions.end_all(who.seat.seat_id, now, "password changed", keep_sid=who.session.sid)
        result = "invalid_credentials" if not good else ("ok" if unchanged else "conflict")
        stores.audit.append(own_event("password.changed", now, caller, who, result))
        return ended

    ended = await services.state.awrite(work)
    if not good:
        raise Unauthenticated("The current password is not right.", code="invalid_credentials")
    if ended is None:
        raise Conflict("The password was changed elsewhere at the same time. Sign in again.")
    return ended


def check_new(password: str, *, email: str) -> None:
    """Raises InvalidRequest(weak_password), with the reason for its owner."""
    fault = passwords.weakness(password, email=email)
    if fault is not None:
        raise InvalidRequest(fault, code="weak_password", faults=(FieldFault("/new_password", fault),))
