"""Change of a password by its owner. Operators set passwords with `operators.set_password_hash`."""

from __future__ import annotations

from daybreak.access import throttle
from daybreak.access.services import AccessServices
from daybreak.access.sessions import ActiveSession
from daybreak.credentials import passwords
from daybreak.domain.errors import Conflict, FieldFault, InvalidRequest, Unauthenticated
from daybreak.domain.identity import Caller
from daybreak.ports.state import Stores


async def change_own(services: AccessServices, active: ActiveSession, *, current: str, new: str, caller: Caller) -> int:
    """Set a new password, end every other session of the seat and return their number.

    Raises Unauthenticated(invalid_credentials), InvalidRequest(weak_password), RateLimited, Unavailable(busy).
    """
    now = services.clock()
    seat = active.seat
    check_new(new, email=seat.email)
    rules = throttle.password_rules(services.settings.access, seat_id=seat.seat_id, sid=active.session.sid)
    await throttle.count_attempt(services.state, rules, now)
    correct = await services.hashing.verify(seat.password_hash, current)
    new_hash = await services.hashing.hash(new) if correct else None

    def write(stores: Stores) -> int | None:
        locked = stores.seats.get_for_update(seat.seat_id)
        unchanged = locked is not None and locked.password_hash == seat.password_hash
        ended: int | None = None
        if new_hash is not None and unchanged:
            stores.seats.set_password_hash(seat.seat_id, new_hash, now)
            stores.sessions.mark_reauthenticated(active.session.sid, now)
            ended = stores.sessions.end_all(seat.seat_id, now, "password changed", keep_sid=active.session.sid)
        result = "invalid_credentials" if not correct else ("ok" if unchanged else "conflict")
        stores.audit.append(active.origin(now, caller).event("password.changed", result))
        return ended

    ended = await services.state.awrite(write)
    if not correct:
        raise Unauthenticated("The current password is wrong.", code="invalid_credentials")
    if ended is None:
        raise Conflict("The password was changed elsewhere at the same time. Sign in again.")
    return ended


def check_new(password: str, *, email: str) -> None:
    """Raise InvalidRequest(weak_password) with the reason if the password is too weak."""
    fault = passwords.weakness(password, email=email)
    if fault is not None:
        raise InvalidRequest(fault, code="weak_password", faults=(FieldFault("/new_password", fault),))
