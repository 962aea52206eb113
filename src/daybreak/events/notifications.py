"""The events that a seat receives by mail."""

from collections.abc import Collection

from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, require_recent_password
from daybreak.credentials.mail_tokens import verify_unsubscribe_token
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import NotFound
from daybreak.domain.events import (
    ACCOUNT_EVENTS,
    DEFAULT_EVENTS,
    OPERATOR_EVENTS,
    SECURITY_EVENTS,
    TOKEN_EVENTS,
    EventType,
)
from daybreak.domain.identity import Caller, Seat
from daybreak.state.outbox import KNOWN_TYPES
from daybreak.state.stores import Stores

_CHANGED = "notifications.changed"


def offered_events(seat: Seat) -> tuple[EventType, ...]:
    """Return the events that a seat can choose."""
    operator = OPERATOR_EVENTS if seat.operator else ()
    return tuple(dict.fromkeys((*ACCOUNT_EVENTS, *TOKEN_EVENTS, *operator, *SECURITY_EVENTS)))


async def chosen_events(services: Services, seat: Seat) -> frozenset[EventType]:
    """Return the events that a seat receives."""
    choices = await services.state.aread(lambda stores: stores.notifications.choices(seat.seat_id))
    return _chosen(choices, seat)


async def choose_events(
    services: Services, active: ActiveSession, chosen: Collection[EventType], caller: Caller
) -> None:
    """Receive these events and no others.

    Raises Forbidden(reauthentication_required) when a security event is switched off and the password was not entered
    recently: a stolen session must not hide what it does.
    """
    seat, now = active.seat, services.clock()
    current = await chosen_events(services, seat)
    dropped = current - set(chosen)
    if dropped & set(SECURITY_EVENTS):
        require_recent_password(services, active.session)
    changes = {event: event in chosen for event in offered_events(seat) if (event in chosen) != (event in current)}
    if not changes:
        return
    event = active.origin(now, caller).event(_CHANGED, "ok", {name.value: on for name, on in changes.items()})

    def write(stores: Stores) -> None:
        stores.notifications.choose(seat.seat_id, changes)
        stores.audit.append(event)

    await services.state.awrite(write)


async def unsubscribe(services: Services, token: str, caller: Caller) -> EventType:
    """Stop mails about the type of event of an unsubscribe link, and return it. Raises NotFound."""
    seat_id, type_ = parse_link(services, token)
    now = services.clock()

    def write(stores: Stores) -> None:
        seat = stores.seats.by_id(seat_id)
        if seat is None:
            raise _invalid_link()
        if type_ in _chosen(stores.notifications.choices(seat_id), seat):
            stores.notifications.choose(seat_id, {type_: False})
            origin = EventOrigin(now, caller, seat)
            stores.audit.append(origin.event(_CHANGED, "ok", {type_.value: False, "by": "unsubscribe link"}))

    await services.state.awrite(write)
    return type_


def parse_link(services: Services, token: str) -> tuple[str, EventType]:
    """Return seat and type of event of an unsubscribe link. Raises NotFound."""
    found = verify_unsubscribe_token(token, keyring=services.keyring.current())
    if found is None or found[1] not in KNOWN_TYPES:
        raise _invalid_link()
    seat_id, type_ = found
    return seat_id, EventType(type_)


def _chosen(choices: dict[EventType, bool], seat: Seat) -> frozenset[EventType]:
    return frozenset(event for event in offered_events(seat) if choices.get(event, event in DEFAULT_EVENTS))


def _invalid_link() -> NotFound:
    return NotFound("This link is invalid. Sign in and open Notifications to change your mails.")
