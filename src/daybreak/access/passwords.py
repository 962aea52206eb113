"""Change of a password by its owner. Operators set passwords with `operators.set_password_hash`."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from daybreak.access import throttle
from daybreak.access.end_credentials import EndReason, end_credentials
from daybreak.access.login import require_password_login
from daybreak.access.security_events import password_changed
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, renew, session_ended
from daybreak.credentials import passwords
from daybreak.domain.errors import Conflict, FieldFault, InvalidRequest, RequestError, Unauthenticated
from daybreak.domain.identity import Caller, Session
from daybreak.state.stores import Stores


async def change_own(services: Services, active: ActiveSession, *, current: str, new: str, caller: Caller) -> Session:
    """Set a new password and end every other session of the seat. A dashboard session gets a new id.

    Returns the session. Raises Unauthenticated (`invalid_credentials`, `session_ended`),
    InvalidRequest(weak_password), Forbidden(password_login_disabled), RateLimited, Unavailable(busy).
    """
    require_password_login(services.settings)
    now = services.clock()
    seat = active.seat
    await check_new_password(services, new, seat.email)
    rules = throttle.password_rules(services.settings.access, seat_id=seat.seat_id, sid=active.session.sid)
    await throttle.count_attempt(services.state, rules, now)
    correct = await services.hashing.verify(seat.password_hash, current)
    new_hash = await services.hashing.hash(new) if correct else None

    if new_hash is None:
        refused = active.origin(now, caller).event("password.changed", "invalid_credentials")
        await services.state.awrite(lambda stores: stores.audit.append(refused))
        raise Unauthenticated("The current password is wrong.", code="invalid_credentials")

    def write(stores: Stores) -> Session | RequestError:
        locked = stores.seats.get_for_update(seat.seat_id)
        if locked is None or locked.password_hash != seat.password_hash:
            stores.audit.append(active.origin(now, caller).event("password.changed", "conflict"))
            return Conflict("The password was changed elsewhere at the same time. Sign in again.")
        stores.sessions.mark_reauthenticated(active.session.sid, now)
        confirmed = replace(active.session, reauthenticated_at=now)
        session = renew(services, stores, confirmed, now, EndReason.PASSWORD_CHANGED)
        stores.audit.append(active.renewal_event("password.changed", now, caller, session))
        if session is None:
            return session_ended()
        stores.seats.set_password_hash(seat.seat_id, new_hash)
        stores.outbox.add(password_changed(seat, now, "changed", address=caller.address))
        end_credentials(stores, seat.seat_id, EndReason.PASSWORD_CHANGED, now, keep_sid=session.sid)
        return session

    return await services.commit(write)


async def check_new_password(services: Services, password: str, email: str) -> None:
    """Raise InvalidRequest(weak_password) with the reason if the password is too weak. Raises Unavailable."""
    breached = services.settings.access.breached_passwords
    # In a thread, because the file of breached passwords may be on a slow disk.
    check = partial(passwords.weakness, password, email=email, breached=breached)
    fault = await services.threads.run(email, check)
    if fault is not None:
        raise InvalidRequest(fault, code="weak_password", faults=(FieldFault("/new_password", fault),))
