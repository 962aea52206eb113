"""Choices of seats, and unsubscribe links."""

import pytest

from daybreak.access.sessions import ActiveSession, active_session
from daybreak.credentials.mail_tokens import unsubscribe_token
from daybreak.domain.errors import Forbidden, NotFound
from daybreak.domain.events import SECURITY_EVENTS, EventType
from daybreak.events.notifications import choose_events, chosen_events, offered_events, unsubscribe
from tests.unit.access.instance import CALLER, ROSA, UNKNOWN
from tests.unit.events.conftest import Events


async def _sign_in(events: Events) -> ActiveSession:
    started = await events.instance.log_in()
    return await active_session(events.instance.services, started.token)


async def _chosen(events: Events) -> frozenset[EventType]:
    return await chosen_events(events.instance.services, events.instance.seat(ROSA))


async def test_late_files_and_security_are_chosen_by_default(events: Events) -> None:
    assert await _chosen(events) == {EventType.SNAPSHOT_LATE, *SECURITY_EVENTS}
    events.instance.write(lambda stores: stores.seats.set_operator(ROSA, operator=True))
    assert await _chosen(events) == {EventType.SNAPSHOT_LATE, EventType.DIRECTORY_FAILING, *SECURITY_EVENTS}
    assert {EventType.SNAPSHOT_HELD, EventType.SNAPSHOT_FAILED} <= set(offered_events(events.instance.seat(ROSA)))


async def test_choices_are_recorded_once(events: Events) -> None:
    active, services = await _sign_in(events), events.instance.services
    chosen = [EventType.SNAPSHOT_PUBLISHED, *SECURITY_EVENTS]
    for _ in range(2):
        await choose_events(services, active, chosen, CALLER)
    assert await _chosen(events) == set(chosen)
    (recorded,) = events.instance.audit("notifications.changed")
    assert recorded.details == {"snapshot.published": True, "snapshot.late": False}


async def test_security_mails_need_a_recent_password(events: Events) -> None:
    active, services = await _sign_in(events), events.instance.services
    events.instance.advance(minutes=11)
    await choose_events(services, active, SECURITY_EVENTS, CALLER)
    with pytest.raises(Forbidden) as refused:
        await choose_events(services, active, SECURITY_EVENTS[1:], CALLER)
    assert refused.value.code == "reauthentication_required"
    assert await _chosen(events) == set(SECURITY_EVENTS)


async def test_events_of_operators_cannot_be_chosen_by_others(events: Events) -> None:
    chosen = [EventType.SNAPSHOT_HELD, *SECURITY_EVENTS]
    await choose_events(events.instance.services, await _sign_in(events), chosen, CALLER)
    assert await _chosen(events) == set(SECURITY_EVENTS)


async def test_unsubscribe_link_stops_one_type(events: Events) -> None:
    services = events.instance.services
    token = unsubscribe_token(ROSA, "snapshot.late", keyring=services.keyring.current())
    for _ in range(2):
        assert await unsubscribe(services, token, CALLER) is EventType.SNAPSHOT_LATE
    assert await _chosen(events) == set(SECURITY_EVENTS)
    assert len(events.instance.audit("notifications.changed")) == 1


async def test_invalid_unsubscribe_links_are_refused(events: Events) -> None:
    services = events.instance.services
    ring = services.keyring.current()
    token = unsubscribe_token(ROSA, "snapshot.late", keyring=ring)
    for text in (
        "",
        "x",
        token[:-1],
        token.replace(ROSA, UNKNOWN),
        unsubscribe_token(UNKNOWN, "token.leaked", keyring=ring),
        unsubscribe_token(ROSA, "of.a.later.version", keyring=ring),
    ):
        with pytest.raises(NotFound):
            await unsubscribe(services, text, CALLER)
