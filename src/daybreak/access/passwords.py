"""Change of a password by its owner, and links that set one: the reset of a forgotten password, and the invitation of a
new seat. Links are sent by mail, or an operator passes them on.

A request for a link has the same answer and takes the same time whether or not the seat exists. Only one for a seat
leaves an event in the outbox. The deliverer creates the token, so that only its digest is stored. A link proves the
mailbox only: the login that follows a new password asks for the second factor.

Operators set passwords with `operators.set_password_hash`.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from daybreak.access import throttle
from daybreak.access.end_credentials import EndReason, end_credentials
from daybreak.access.login import SecondFactorPending, SessionStart, SessionStarted, find_device, require_password_login
from daybreak.access.security_events import password_changed
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, mark_reauthenticated
from daybreak.credentials import mail_tokens, passwords
from daybreak.domain.audit import EventOrigin
from daybreak.domain.email_address import is_email_address
from daybreak.domain.errors import Conflict, FieldFault, InvalidRequest, NotFound, RequestError, Unauthenticated
from daybreak.domain.events import EventType, new_event
from daybreak.domain.identity import Caller, Seat, Session, folded_email
from daybreak.settings import Settings
from daybreak.state.password_resets import PasswordReset
from daybreak.state.stores import Stores

LINK_LIFETIMES = {EventType.PASSWORD_RESET_REQUESTED: timedelta(minutes=30), EventType.SEAT_INVITED: timedelta(days=7)}
"""How long the link of a mail works, by the event that the mail is about."""
_REQUESTED, _RESET = "password.reset_requested", "password.reset"


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
        await services.record(active.origin(now, caller).event("password.changed", "invalid_credentials"))
        raise Unauthenticated("The current password is wrong.", code="invalid_credentials")

    def write(stores: Stores) -> Session | RequestError:
        locked = stores.seats.get_for_update(seat.seat_id)
        if locked is None or locked.password_hash != seat.password_hash:
            stores.audit.append(active.origin(now, caller).event("password.changed", "conflict"))
            return Conflict("The password was changed elsewhere at the same time. Sign in again.")
        session = mark_reauthenticated(services, stores, active, caller, now, "password.changed")
        if isinstance(session, RequestError):
            return session
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


def is_available(settings: Settings) -> bool:
    """Return whether mails with links are sent: mail is configured, and passwords are accepted."""
    return settings.mail.enabled and settings.oidc.password_login


async def request_reset(services: Services, *, email: str, caller: Caller) -> None:
    """Queue a mail with a link to the seat of an email, if there is one.

    Raises RateLimited, NotFound without mail, Forbidden(password_login_disabled), Unavailable.
    """
    require_password_login(services.settings)
    if not services.settings.mail.enabled:
        raise NotFound("This service sends no mail. Ask your operator for a link that sets a new password.")
    now, typed_email = services.clock(), email.strip()
    rules = throttle.password_reset_rules(services.settings.access, email=typed_email, address=caller.address)
    await throttle.count_attempt(services.state, rules, now)
    key = services.random(16).hex()

    def write(stores: Stores) -> None:
        found = stores.seats.by_email(typed_email) if is_email_address(typed_email) else None
        seat = found if found is not None and not found.disabled else None
        seat_id = None if seat is None else seat.seat_id
        stores.audit.append(EventOrigin(now, caller, seat).event(_REQUESTED, "ok" if seat else "unknown_seat"))
        # Both cases run the same statements, so that they take the same time.
        event = new_event(EventType.PASSWORD_RESET_REQUESTED, key, now, {}, seat_id=seat_id)
        stores.outbox.add(event)
        stores.outbox.delete_without_seat(event.event_id)

    await services.state.awrite(write)


def has_password_login(stores: Stores, seat: Seat) -> bool:
    """Return whether a seat may have a password: not if it signs in with single sign-on only."""
    return seat.password_hash is not None or not stores.identities.list_for(seat.seat_id)


def create_reset(
    seat: Seat, type_: EventType, requested_at: datetime, now: datetime, random: Callable[[int], bytes]
) -> tuple[str, PasswordReset]:
    """Create the token of a link in a mail of that type, and what is stored of it.

    The link is invalid if the credentials of the seat ended after `requested_at`.
    """
    token = mail_tokens.new_reset_token(random)
    digest = mail_tokens.reset_digest(token)
    assert digest is not None
    return token, PasswordReset(
        digest, seat.seat_id, type_, folded_email(seat.email), requested_at, now + LINK_LIFETIMES[type_]
    )


def link_url(settings: Settings, token: str) -> str:
    return f"{settings.base_url}/dashboard/reset-password?token={token}"


async def seat_of_link(services: Services, token: str) -> Seat | None:
    """Return the seat of a valid link. Raises Forbidden(password_login_disabled)."""
    require_password_login(services.settings)
    digest, now = mail_tokens.reset_digest(token) or "", services.clock()
    return await services.state.aread(lambda stores: stores.seats.by_id(stores.password_resets.find(digest, now) or ""))


async def reset_password(
    services: Services,
    token: str,
    new: str,
    caller: Caller,
    *,
    device_id: str | None = None,
    held_sid: str | None = None,
) -> SessionStarted | SecondFactorPending:
    """Set a new password, end the sessions and links of the seat, and log in to the dashboard. The link is used up.

    Raises Unauthenticated(invalid_reset_link), InvalidRequest(weak_password), RateLimited, Unavailable(busy), as
    `seat_of_link` does, and Forbidden(no_active_account) after the password was set.
    """
    require_password_login(services.settings)
    now = services.clock()
    rules = throttle.origin_rules(services.settings.access, "reset_use", caller.address)
    await throttle.count_attempt(services.state, rules, now)
    seat = await seat_of_link(services, token)
    if seat is None:
        await services.record(EventOrigin(now, caller).event(_RESET, "invalid_reset_link"))
        raise _invalid_link()
    await check_new_password(services, new, seat.email)
    new_hash = await services.hashing.hash(new)

    digest = mail_tokens.reset_digest(token) or ""
    start = SessionStart(services, seat, caller, None, "dashboard", now, ("pwd",), proved_at=now, held_sid=held_sid)

    def write(stores: Stores) -> Session | RequestError:
        # Locked first, as a change of the password does.
        locked = stores.seats.get_for_update(seat.seat_id)
        origin = EventOrigin(now, caller, seat)
        used = stores.password_resets.use(digest, now)
        if locked is None or used != seat.seat_id or not has_password_login(stores, locked):
            stores.audit.append(origin.event(_RESET, "invalid_reset_link"))
            return _invalid_link()
        stores.seats.set_password_hash(seat.seat_id, new_hash)
        end_credentials(stores, seat.seat_id, EndReason.PASSWORD_RESET, now)
        stores.audit.append(origin.event(_RESET, "ok"))
        stores.outbox.add(password_changed(seat, now, "reset_by_mail", address=caller.address))
        start.device = find_device(stores, device_id, seat)
        return start.write(stores, locked)

    return start.result(await services.commit(write))


def _invalid_link() -> Unauthenticated:
    return Unauthenticated("This link has expired or was used. Request a new one.", code="invalid_reset_link")
