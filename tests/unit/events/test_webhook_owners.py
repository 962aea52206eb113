"""A webhook ends with the permission of its owner, until another owner or admin takes it over."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace

from daybreak.access import operators
from daybreak.access.directory.changes import apply_changes, compare_directories
from daybreak.domain.errors import Forbidden
from daybreak.domain.events import EventType
from daybreak.domain.identity import Grant, Seat
from daybreak.events import webhooks
from daybreak.state.directory import Directory
from daybreak.state.stores import Stores
from tests.unit.access.instance import ALPHA, CALLER, OMAR, ROSA
from tests.unit.events.conftest import Events
from tests.unit.events.test_webhooks import _principal

Change = Callable[[Events], object]
T = TypeVar("T")


def by_directory(
    seat: Callable[[Seat], Seat | None] = lambda seat: seat,
    grant: Callable[[Grant], Grant | None] = lambda grant: grant,
) -> Change:
    """Return a synchronization with a directory in which Rosa's seat, or her grants, differ."""

    def work(events: Events) -> None:
        def write(stores: Stores) -> None:
            known = stores.directory.load()
            seats = [seat(each) if each.seat_id == ROSA else each for each in known.seats]
            grants = [grant(each) if each.seat_id == ROSA else each for each in known.grants]
            remaining = {each.seat_id for each in seats if each is not None}
            wanted = Directory(
                known.accounts,
                tuple(each for each in seats if each is not None),
                tuple(each for each in grants if each is not None and each.seat_id in remaining),
            )
            changes = compare_directories(known, wanted, complete=True)
            apply_changes(stores, changes, events.instance.now[0], "service")

        events.instance.write(write)

    return work


def disabled_by_an_operator(events: Events) -> None:
    seat, now = events.instance.seat(ROSA), events.instance.now[0]
    events.instance.write(lambda stores: operators.set_disabled(stores, seat, now, disabled=True, actor="operator"))


REASONS: dict[str, Change] = {
    "seat left the directory": by_directory(seat=lambda _seat: None),
    "seat disabled by the directory": by_directory(seat=lambda seat: replace(seat, disabled=True)),
    "seat disabled by an operator": disabled_by_an_operator,
    "grant withdrawn": by_directory(grant=lambda grant: None if grant.client_id == ALPHA else grant),
    "Data Export withdrawn": by_directory(grant=lambda grant: replace(grant, data_export=False)),
    "no longer an owner": by_directory(grant=lambda grant: replace(grant, roles=("analyst",))),
}


@pytest.mark.parametrize("reason", REASONS)
def test_webhook_stops_with_the_permission_of_its_owner(events: Events, reason: str) -> None:
    webhook = events.add_webhook("https://hooks.example.org/")
    events.instance.put_grant(OMAR, ALPHA, roles=("admin",))
    REASONS[reason](events)
    stopped = events.webhook(webhook.endpoint_id)
    assert stopped.disabled_at == events.instance.now[0]
    assert stopped.disabled_reason == "Its owner rosa@example.org no longer manages webhooks of this account."
    (recorded,) = events.instance.audit("webhook.disabled")
    assert recorded.client_id == ALPHA
    (entry,) = events.instance.state.read(lambda stores: stores.outbox.incomplete(10))
    assert (entry.event.type, entry.event.data["ownerless"]) == (EventType.WEBHOOK_DISABLED, True)


def test_webhook_of_a_seat_that_keeps_its_permission_continues(events: Events) -> None:
    webhook = events.add_webhook("https://hooks.example.org/")
    by_directory(grant=lambda grant: replace(grant, async_rest_api=False))(events)
    by_directory(seat=lambda seat: replace(seat, email="rosa.new@example.org"))(events)
    assert events.webhook(webhook.endpoint_id).disabled_at is None


async def test_owner_who_disappears_unnoticed_receives_nothing(events: Events) -> None:
    """A restored database, or a change of rows by hand: checked at each delivery."""
    webhook = events.add_webhook("https://hooks.example.org/")
    events.instance.write(lambda stores: stores.directory.remove_grants(Grant(ROSA, ALPHA)))
    events.emit()
    await events.deliver()
    (delivery,) = events.deliveries()
    assert (delivery.attempts, delivery.state.value) == (0, "skipped")
    assert events.webhook(webhook.endpoint_id).disabled_at is not None


async def test_manager_takes_a_webhook_over(events: Events) -> None:
    services = events.instance.services
    webhook = events.add_webhook("https://hooks.example.org/")
    seat = replace(events.instance.seat(ROSA), seat_id=OMAR, email="omar@example.org")
    events.instance.write(lambda stores: stores.webhooks.take_over(webhook.endpoint_id, seat))
    events.instance.write(lambda stores: stores.webhooks.disable(webhook.endpoint_id, events.instance.now[0], "Gone."))
    rosa = await _principal(events)
    await webhooks.enable(services, rosa, webhook.endpoint_id, CALLER)
    assert events.webhook(webhook.endpoint_id).disabled_at is not None, "only its owner enables it"
    await webhooks.take_over(services, rosa, webhook.endpoint_id, CALLER)
    taken = events.webhook(webhook.endpoint_id)
    assert (taken.created_by, taken.created_by_email, taken.disabled_at) == (ROSA, "rosa@example.org", None)
    assert [event.actor for event in events.instance.audit("webhook.taken_over")] == ["rosa@example.org"]
    events.instance.advance(hours=1)
    with pytest.raises(Forbidden) as refused:
        await webhooks.take_over(services, rosa, webhook.endpoint_id, CALLER)
    assert refused.value.code == "reauthentication_required"
