"""Outbox, deliveries, webhooks, choices and password resets on both databases."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from daybreak.domain.events import Attempt, Channel, Delivery, DeliveryState, EventType, Webhook, new_event
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.database import Database
from daybreak.state.deliveries import DeliveryBacklog, DeliveryFilter
from daybreak.state.password_resets import PasswordReset
from daybreak.state.schema import deliveries, notification_choices
from daybreak.state.stores import Stores
from tests.integration.state.values import NOW

ACCOUNTS = tuple(f"10000000-0000-4000-8000-00000000000{number}" for number in range(3))
SEATS = tuple(f"00000000-0000-4000-8000-00000000000{number}" for number in range(4))
EVENT = new_event(EventType.SNAPSHOT_LATE, "2026-11-20", NOW, {"day": "2026-11-20"})


def _webhook(number: int, client_id: str = ACCOUNTS[0]) -> Webhook:
    return Webhook(f"endpoint-{number}", client_id, "https://example.org/", "k.sealed", NOW, SEATS[0], "a@example.org")


def _delivery(name: str, endpoint_id: str, due_minutes: int = 0) -> Delivery:
    at = NOW + timedelta(minutes=due_minutes)
    return Delivery(
        name,
        EVENT.event_id,
        f"msg_{name}",
        EVENT.type,
        "webhook",
        "{}",
        NOW,
        ACCOUNTS[0],
        endpoint_id,
        next_attempt_at=at,
    )


def _fill(stores: Stores) -> None:
    for number, client_id in enumerate(ACCOUNTS):
        active = number < 2
        stores.directory.put_accounts(Account(client_id, f"A{number}", "", "+1", "long_code", active=active))
    for number, seat_id in enumerate(SEATS):
        stores.directory.put_seats(Seat(seat_id, f"{number}@example.org"))
    # An owner; an analyst; a seat without Data Export; a seat of an inactive account.
    stores.directory.put_grants(
        Grant(SEATS[0], ACCOUNTS[0], ("owner",), data_export=True),
        Grant(SEATS[1], ACCOUNTS[0], ("analyst",), data_export=True),
        Grant(SEATS[2], ACCOUNTS[1], ("admin",)),
        Grant(SEATS[3], ACCOUNTS[2], ("owner",), data_export=True),
    )


def test_event_is_added_once(state: Database) -> None:
    assert state.write(lambda stores: stores.outbox.add(EVENT)) is True
    assert state.write(lambda stores: stores.outbox.add(EVENT)) is False
    (entry,) = state.read(lambda stores: stores.outbox.incomplete(10))
    assert (entry.event, entry.cursor) == (EVENT, "")
    assert state.read(lambda stores: stores.outbox.latest(EventType.SNAPSHOT_LATE)) == EVENT
    assert state.read(lambda stores: stores.outbox.latest(EventType.SNAPSHOT_HELD)) is None
    assert state.read(lambda stores: stores.outbox.has_work(NOW)) is True
    state.write(lambda stores: stores.outbox.advance(EVENT.event_id, "seat:x"))
    assert state.read(lambda stores: stores.outbox.incomplete(10))[0].cursor == "seat:x"
    state.write(lambda stores: stores.outbox.complete(EVENT.event_id, NOW))
    assert state.read(lambda stores: stores.outbox.has_work(NOW)) is False


def test_lease_has_one_holder(state: Database) -> None:
    until = NOW + timedelta(seconds=60)
    assert state.write(lambda stores: stores.outbox.take_lease("a", NOW, until)) is True
    assert state.write(lambda stores: stores.outbox.take_lease("b", NOW, until)) is False
    assert state.write(lambda stores: stores.outbox.take_lease("a", NOW, until + timedelta(seconds=5))) is True
    assert state.write(lambda stores: stores.outbox.take_lease("b", until, until)) is False
    state.write(lambda stores: stores.outbox.release_lease("b"))
    assert state.write(lambda stores: stores.outbox.take_lease("b", until, until)) is False
    later = until + timedelta(seconds=5)
    assert state.write(lambda stores: stores.outbox.take_lease("b", later, later)) is True
    state.write(lambda stores: stores.outbox.release_lease("b"))
    assert state.write(lambda stores: stores.outbox.take_lease("a", NOW, until)) is True


def test_lease_from_before_a_step_of_the_clock_has_lapsed(state: Database) -> None:
    earlier = NOW - timedelta(hours=1)
    assert state.write(lambda stores: stores.outbox.take_lease("a", NOW, NOW + timedelta(seconds=60))) is True
    # Clocks of two nodes differ by less.
    behind = NOW - timedelta(minutes=9)
    assert state.write(lambda stores: stores.outbox.take_lease("b", behind, behind + timedelta(seconds=60))) is False
    assert state.write(lambda stores: stores.outbox.take_lease("b", earlier, earlier + timedelta(seconds=60))) is True


def test_due_deliveries_of_failing_endpoints_are_separate(state: Database) -> None:
    def write(stores: Stores) -> None:
        _fill(stores)
        stores.outbox.add(EVENT)
        for number in range(3):
            stores.webhooks.add(_webhook(number))
        added = [_delivery(f"a{number}", "endpoint-0", -number) for number in range(5)]
        stores.deliveries.add_all([*added, _delivery("b", "endpoint-1"), _delivery("c", "endpoint-2", 1)])
        # Added again after an interruption.
        stores.deliveries.add_all([_delivery("b", "endpoint-1", 99)])
        stores.webhooks.set_failing("endpoint-1", NOW)

    state.write(write)

    def due(limit: int, *exclude: str, failing: bool = False) -> list[str]:
        found = state.read(
            lambda stores: stores.deliveries.due_webhooks(NOW, failing=failing, exclude=exclude, limit=limit)
        )
        return [each.delivery_id for each in found]

    assert due(2) == ["a4", "a3"]
    assert due(9, "endpoint-0") == []
    assert due(9, "endpoint-0", failing=True) == ["b"]
    assert due(9, "endpoint-1", failing=True) == []
    assert state.read(lambda stores: stores.deliveries.due_mails(NOW, 5)) == []


def test_mail_to_reset_a_password_is_sent_first(state: Database) -> None:
    kinds = {"a": (-9, 0, EVENT.type), "b": (-8, 0, EVENT.type), "c": (-7, 1, EVENT.type)}
    kinds["reset"] = (0, 0, EventType.PASSWORD_RESET_REQUESTED)
    waiting = [
        Delivery(
            name,
            EVENT.event_id,
            f"msg_{name}",
            type_,
            "mail",
            "{}",
            NOW,
            seat_id=SEATS[seat],
            next_attempt_at=NOW + timedelta(minutes=minutes),
        )
        for name, (minutes, seat, type_) in kinds.items()
    ]

    def write(stores: Stores) -> None:
        _fill(stores)
        stores.outbox.add(EVENT)
        stores.deliveries.add_all(waiting)

    state.write(write)
    due = state.read(lambda stores: stores.deliveries.due_mails(NOW, 9))
    assert [each.delivery_id for each in due] == ["reset", "a", "c", "b"]


@pytest.mark.parametrize(
    ("status", "channel", "is_overdue"),
    [(None, "mail", True), (535, "mail", True), (452, "mail", False), (None, "webhook", False)],
    ids=["no reply", "sign-in refused", "mailbox full", "receiver down"],
)
def test_mail_is_overdue_while_the_server_cannot_be_used(
    state: Database, status: int | None, channel: Channel, is_overdue: bool
) -> None:
    endpoint_id, seat_id = (None, SEATS[0]) if channel == "mail" else ("endpoint-0", None)
    delivery = Delivery(
        "a", EVENT.event_id, "msg_a", EVENT.type, channel, "{}", NOW, None, endpoint_id, seat_id, next_attempt_at=NOW
    )
    later = NOW + timedelta(hours=2)

    def write(stores: Stores) -> None:
        _fill(stores)
        stores.outbox.add(EVENT)
        stores.webhooks.add(_webhook(0))
        stores.deliveries.add_all([delivery])
        attempt = Attempt(1, NOW, status, "refused", 12)
        stores.deliveries.record(delivery, attempt, DeliveryState.PENDING, next_attempt_at=later)

    state.write(write)
    backlog = state.read(lambda stores: stores.deliveries.backlog(NOW))
    assert backlog[channel].due_at == (NOW if is_overdue else later)


def test_retried_mail_is_due_since_its_retry(state: Database) -> None:
    delivery = Delivery("a", EVENT.event_id, "msg_a", EVENT.type, "mail", "{}", NOW, next_attempt_at=NOW)
    later = NOW + timedelta(days=1)

    def write(stores: Stores) -> None:
        stores.outbox.add(EVENT)
        stores.deliveries.add_all([delivery])
        stores.deliveries.record(delivery, Attempt(1, NOW, 550, "No such user.", 12), DeliveryState.FAILED)
        stores.deliveries.retry("a", later)

    state.write(write)
    assert state.read(lambda stores: stores.deliveries.backlog(NOW))["mail"].due_at == later


def test_backlog_counts_what_waits_and_what_failed(state: Database) -> None:
    first, second, failed, old = (_delivery(name, "endpoint-0", number) for number, name in enumerate("abcd"))

    def write(stores: Stores) -> None:
        _fill(stores)
        stores.outbox.add(EVENT)
        stores.webhooks.add(_webhook(0))
        stores.deliveries.add_all([first, second, failed, old])
        for each, at in ((failed, NOW), (old, NOW - timedelta(days=2))):
            stores.deliveries.record(each, Attempt(1, at, 500, "Status 500.", 12), DeliveryState.FAILED)

    assert state.read(lambda stores: stores.outbox.backlog()) == (0, None)
    state.write(write)
    assert state.read(lambda stores: stores.outbox.backlog()) == (1, NOW)
    assert state.read(lambda stores: stores.deliveries.backlog(NOW - timedelta(days=1))) == {
        "webhook": DeliveryBacklog(2, NOW, 1),
        "mail": DeliveryBacklog(0, None, 0),
    }
    state.write(lambda stores: stores.outbox.complete(EVENT.event_id, NOW))
    assert state.read(lambda stores: stores.outbox.backlog()) == (0, None)


def test_attempts_are_recorded_once(state: Database) -> None:
    delivery = _delivery("a", "endpoint-0")

    def write(stores: Stores) -> None:
        _fill(stores)
        stores.outbox.add(EVENT)
        stores.webhooks.add(_webhook(0))
        stores.deliveries.add_all([delivery])

    state.write(write)
    first, second = (Attempt(number, NOW, 500, "Status 500.", 12) for number in (1, 2))
    retry_at = NOW + timedelta(seconds=5)

    def record(attempt: Attempt, to: DeliveryState, **more: object) -> bool:
        return state.write(lambda stores: stores.deliveries.record(delivery, attempt, to, **more))  # type: ignore[arg-type]

    assert record(first, DeliveryState.PENDING, next_attempt_at=retry_at) is True
    assert record(first, DeliveryState.FAILED) is False
    assert record(second, DeliveryState.FAILED) is True
    assert record(Attempt(3, NOW, 200, "", 1), DeliveryState.DELIVERED) is False
    found = state.read(lambda stores: stores.deliveries.get("a"))
    assert found is not None
    assert (found.state, found.attempts, found.next_attempt_at, found.finished_at) == ("failed", 2, None, NOW)
    assert state.read(lambda stores: stores.deliveries.attempts(["a", "x"])) == {"a": [first, second], "x": []}
    assert state.write(lambda stores: stores.deliveries.retry("a", retry_at)) is True
    assert state.write(lambda stores: stores.deliveries.retry("a", retry_at)) is False
    selected = DeliveryFilter(
        client_id=ACCOUNTS[0], endpoint_id="endpoint-0", channel="webhook", state=DeliveryState.PENDING
    )
    assert len(state.read(lambda stores: stores.deliveries.list_recent(selected, 10))) == 1
    assert state.write(lambda stores: stores.deliveries.end_pending("endpoint-0", NOW, "off")) == 1
    assert state.write(lambda stores: stores.webhooks.remove("endpoint-0")) is True
    assert state.read(lambda stores: stores.deliveries.get("a")) is None


def test_webhooks_change_state(state: Database) -> None:
    state.write(_fill)
    for number, client_id in enumerate(ACCOUNTS):
        state.write(lambda stores, number=number, client_id=client_id: stores.webhooks.add(_webhook(number, client_id)))  # type: ignore[misc]
    enabled = state.read(lambda stores: stores.webhooks.list_enabled("", 10))
    assert [each.endpoint_id for each in enabled] == ["endpoint-0", "endpoint-1"]
    assert state.read(lambda stores: stores.webhooks.list_enabled("endpoint-0", 10))[0].endpoint_id == "endpoint-1"
    assert state.write(lambda stores: stores.webhooks.disable("endpoint-0", NOW, "off")) is True
    assert state.write(lambda stores: stores.webhooks.disable("endpoint-0", NOW, "again")) is False
    state.write(lambda stores: stores.webhooks.set_failing("endpoint-0", NOW))
    assert state.write(lambda stores: stores.webhooks.enable("endpoint-0", owner_id=SEATS[0])) is True
    assert state.write(lambda stores: stores.webhooks.enable("endpoint-0", owner_id=SEATS[0])) is False
    assert state.write(lambda stores: stores.webhooks.list_for_update(ACCOUNTS[0])) == [_webhook(0)]
    assert state.write(lambda stores: stores.webhooks.rotate("endpoint-0", "k2.new", NOW)) is True
    assert sorted(state.read(lambda stores: stores.webhooks.sealed_secrets())) == ["k.sealed"] * 3 + ["k2.new"]
    resealed = state.write(
        lambda stores: stores.webhooks.reseal(lambda _id, sealed: "k3" if sealed == "k.sealed" else None)
    )
    assert resealed == 3
    found = state.read(lambda stores: stores.webhooks.get("endpoint-0"))
    assert found is not None
    assert (found.sealed_secret, found.previous_secret, found.previous_until) == ("k2.new", "k3", NOW)


def test_recipients_depend_on_access_role_and_choice(state: Database) -> None:
    state.write(_fill)

    def recipients(type_: EventType, after: str = "", limit: int = 10) -> list[str]:
        return state.read(lambda stores: stores.notifications.recipients(type_, after, limit))

    assert recipients(EventType.SNAPSHOT_LATE) == [SEATS[0], SEATS[1]]
    assert recipients(EventType.SNAPSHOT_LATE, limit=1) == [SEATS[0]]
    assert recipients(EventType.SNAPSHOT_LATE, after=SEATS[0]) == [SEATS[1]]
    assert recipients(EventType.SNAPSHOT_PUBLISHED) == []
    assert recipients(EventType.PASSWORD_CHANGED) == []
    state.write(lambda stores: stores.seats.set_operator(SEATS[2], operator=True))
    assert recipients(EventType.SNAPSHOT_LATE) == list(SEATS[:3])
    choice = {EventType.SNAPSHOT_LATE: False, EventType.SNAPSHOT_HELD: True}
    state.write(lambda stores: stores.notifications.choose(SEATS[2], choice))
    assert state.read(lambda stores: stores.notifications.choices(SEATS[2])) == choice
    assert recipients(EventType.SNAPSHOT_LATE) == [SEATS[0], SEATS[1]]
    assert recipients(EventType.SNAPSHOT_HELD) == [SEATS[2]]
    state.write(lambda stores: stores.notifications.choose(SEATS[2], {EventType.SNAPSHOT_HELD: False}))
    assert recipients(EventType.SNAPSHOT_HELD) == []
    assert state.read(lambda stores: stores.notifications.managers(ACCOUNTS[0])) == [SEATS[0]]
    state.write(lambda stores: stores.seats.set_disabled(SEATS[0], disabled=True))
    assert recipients(EventType.SNAPSHOT_LATE) == [SEATS[1]]
    assert state.read(lambda stores: stores.notifications.managers(ACCOUNTS[0])) == []


def test_records_of_a_later_version_are_left_out(state: Database) -> None:
    def add(stores: Stores) -> None:
        _fill(stores)
        stores.outbox.add(EVENT)
        stores.webhooks.add(_webhook(0))
        stores.deliveries.add_all([_delivery("a", "endpoint-0"), _delivery("b", "endpoint-0")])
        stores.notifications.choose(SEATS[0], {EventType.SNAPSHOT_LATE: False, EventType.SNAPSHOT_HELD: True})
        later = {"type": "of.a.later.version"}
        stores.connection.execute(sa.update(deliveries).where(deliveries.c.delivery_id == "b").values(later))
        is_held = notification_choices.c.type == EventType.SNAPSHOT_HELD
        stores.connection.execute(sa.update(notification_choices).where(is_held).values(later))

    state.write(add)
    found = state.read(lambda stores: stores.deliveries.list_recent(DeliveryFilter(), 10))
    assert [each.delivery_id for each in found] == ["a"]
    assert state.read(lambda stores: stores.deliveries.get("b")) is None
    assert state.read(lambda stores: stores.notifications.choices(SEATS[0])) == {EventType.SNAPSHOT_LATE: False}


def test_password_reset_is_used_once(state: Database) -> None:
    state.write(_fill)
    emails = {seat.seat_id: seat.email for seat in state.read(lambda stores: stores.seats.list_all())}
    type_, expires_at = EventType.PASSWORD_RESET_REQUESTED, NOW + timedelta(minutes=30)
    reset = PasswordReset("d" * 64, SEATS[0], type_, emails[SEATS[0]], NOW, expires_at)
    state.write(lambda stores: stores.password_resets.replace(replace(reset, digest="e" * 64)))
    state.write(lambda stores: stores.password_resets.replace(reset))
    assert state.read(lambda stores: stores.password_resets.find("e" * 64, NOW)) is None
    assert state.read(lambda stores: stores.password_resets.find(reset.digest, reset.expires_at)) is None
    assert state.read(lambda stores: stores.password_resets.find(reset.digest, NOW)) == SEATS[0]
    assert state.write(lambda stores: stores.password_resets.use(reset.digest, NOW)) == SEATS[0]
    assert state.write(lambda stores: stores.password_resets.use(reset.digest, NOW)) is None
    state.write(lambda stores: stores.password_resets.replace(reset))
    later = NOW + timedelta(minutes=1)
    state.write(lambda stores: stores.seats.end_links(later, SEATS[0]))
    assert state.write(lambda stores: stores.password_resets.use(reset.digest, later)) is None
    assert state.write(lambda stores: stores.password_resets.delete_expired(reset.expires_at)) == 1
