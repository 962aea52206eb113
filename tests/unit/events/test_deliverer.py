"""The deliverer's lease, expansion, expiring tokens, and data of each account."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.access.api_tokens import digest, generate
from daybreak.domain.audit import AuditEvent
from daybreak.domain.delta import ResourceDelta
from daybreak.domain.errors import Unavailable
from daybreak.domain.events import DeliveryState, EventType
from daybreak.domain.identity import ApiToken
from daybreak.events.deliverer import Deliverer
from daybreak.events.expiring_tokens import record_expiring_tokens, record_stopped_scripts
from daybreak.state.database import open_state
from tests.parts.mail_server import mail_server
from tests.parts.waiting import wait_until
from tests.parts.webhook_receiver import Answer, Receiver
from tests.unit.access.instance import ALPHA, BRAVO, ROSA
from tests.unit.events.conftest import Events, wait_for_tasks

Receive = Callable[..., Receiver]


async def test_second_builder_waits_for_the_lease(events: Events, receive: Receive) -> None:
    receiver = receive(lambda _request, _number: Answer(hang=True))
    events.add_webhook(receiver.url())
    events.emit()
    first, second = Deliverer(events.context), Deliverer(replace(events.context, holder="other"))
    await first.step()
    await asyncio.to_thread(wait_until, lambda: receiver.hanging == 1, 120)
    for _ in range(3):
        await second.step()
    assert second._tasks == {}
    # The first one died. Its lease ends, and the second one repeats the attempt.
    for task in list(first._tasks.values()):
        task.cancel()
    events.instance.advance(seconds=61)
    await second.step()
    await asyncio.to_thread(receiver.wait_for, 2)
    for task in list(second._tasks.values()):
        task.cancel()
    assert len({each.headers["webhook-id"] for each in receiver.received}) == 1


async def step_before_pause(events: Events, seconds: float) -> None:
    """Make a step whose tasks begin after a pause of the process."""
    ticks = [0.0]
    deliverer = Deliverer(replace(events.context, ticks=lambda: ticks[0]))
    await deliverer.step()
    ticks[0] = seconds
    await wait_for_tasks(deliverer)


async def test_no_attempt_starts_that_could_outlive_the_lease(events: Events, receive: Receive) -> None:
    receiver = receive()
    events.add_webhook(receiver.url())
    events.emit()
    # 60 seconds of lease, 10 seconds for an attempt.
    await step_before_pause(events, 51.0)
    assert receiver.received == []
    assert events.deliveries()[0].state is DeliveryState.PENDING


async def test_no_mail_starts_that_could_outlive_the_lease(events: Events) -> None:
    with mail_server() as server:
        events.change(mail={"url": server.url, "sender": "exports@example.org"})
        events.emit()
        # 60 seconds of lease, 25 seconds for a mail.
        await step_before_pause(events, 36.0)
    assert server.attempts == 0


async def test_message_whose_result_cannot_be_recorded_is_repeated_once(events: Events) -> None:
    """The database refuses writes from the second attempt on, as on a full disk. Reads and the lease go on."""
    file = events.instance.path / "state.db"
    with mail_server() as server, closing(sqlite3.connect(file, check_same_thread=False)) as writer:
        events.change(mail={"url": server.url, "sender": "exports@example.org"})

        def reply(number: int) -> str | None:
            if number == 1:
                return "451 later"
            if not writer.in_transaction:
                writer.execute("BEGIN IMMEDIATE")
            return None

        server.reply = reply
        events.emit(EventType.PASSWORD_CHANGED, data={"change": "changed", "address": ""}, seat_id=ROSA)
        await events.deliver()
        events.instance.advance(seconds=5)
        with closing(open_state(events.instance.url, wait_seconds=0.05)) as state:
            deliverer = Deliverer(replace(events.context, state=state))
            for _ in range(4):
                with suppress(Unavailable):
                    await deliverer.step()
                await wait_for_tasks(deliverer)
        assert server.attempts == 2
        writer.rollback()
        server.reply = lambda _number: None
        await events.deliver()
        assert (server.attempts, events.deliveries()[0].state) == (3, DeliveryState.DELIVERED)


async def test_interrupted_expansion_continues_without_repetition(events: Events, receive: Receive) -> None:
    receiver = receive()
    for number in range(5):
        events.add_webhook(receiver.url(f"/{number}"))
    events.emit()
    await events.deliver()
    # As if the process had died before it recorded that the event is complete.
    with closing(sqlite3.connect(events.instance.path / "state.db")) as connection, connection:
        connection.execute("UPDATE outbox SET completed_at = NULL, cursor = ''")
    await events.deliver()
    assert len(receiver.received) == 5


async def test_published_event_has_the_rows_of_the_account(events: Events, receive: Receive) -> None:
    receiver = receive()
    webhook = events.add_webhook(receiver.url(), ALPHA)
    events.add_webhook(receiver.url("/without-files"), BRAVO)
    events.add_webhook(receiver.url("/only-late"), ALPHA, event_types="snapshot.late snapshot.recovered")
    events.publish("snapshot-1", {"campaigns": 7, "members": 0})
    await events.deliver()
    (received,) = receiver.received
    assert received.path == "/hook"
    data = json.loads(received.body)["data"]
    assert (data["client_id"], data["snapshot_id"], data["version"]) == (ALPHA, "snapshot-1", 1)
    assert data["rows"] == {"campaigns": 7, "members": 0}
    assert data["manifest_url"] == f"https://data.example.org/download/v1/files/{ALPHA}"
    assert data["brief"] == []
    events.publish("snapshot-2", {"campaigns": 9, "members": 0}, {"campaigns": ResourceDelta(7, 9, inserted=2)})
    await events.deliver()
    brief = json.loads(receiver.received[-1].body)["data"]["brief"]
    assert brief == ["Campaign Performance has 2 more rows.", "Two files are ready, 1 of them without changed rows."]
    assert webhook.client_id == ALPHA


@pytest.mark.parametrize(
    ("lifetime_days", "days_left", "expected"),
    [(90, 15, []), (90, 14, [14]), (90, 3, [14]), (90, 2, [2]), (90, 0, []), (7, 6, []), (7, 2, [2]), (1, 1, [])],
)
def test_expiring_tokens_are_reported(events: Events, lifetime_days: int, days_left: int, expected: list[int]) -> None:
    created_at = events.instance.now[0]
    secret = generate(lambda count: b"r" * count)
    expires_at = created_at + timedelta(days=lifetime_days)
    token = ApiToken("t1", digest(secret), ROSA, ALPHA, "nightly", "last", created_at, expires_at)
    events.instance.write(lambda stores: stores.api_tokens.add(token))
    now = expires_at - timedelta(days=days_left)
    events.instance.write(lambda stores: record_expiring_tokens(stores, now))
    events.instance.write(lambda stores: record_expiring_tokens(stores, now + timedelta(hours=1)))
    found = events.instance.state.read(lambda stores: stores.outbox.incomplete(10))
    assert [entry.event.data["days"] for entry in found] == expected
    assert all(entry.event.type is EventType.TOKEN_EXPIRING and entry.event.seat_id == ROSA for entry in found)


@pytest.mark.parametrize("chosen", [True, False])
async def test_stopped_script_is_mailed_once_if_chosen(events: Events, chosen: bool) -> None:
    now = events.instance.now[0]
    last_use = now - timedelta(days=3, hours=1)
    token = ApiToken("t1", "d" * 64, ROSA, ALPHA, "n", "last", now - timedelta(days=80), last_used_at=last_use)
    fetched = [
        AuditEvent(last_use - timedelta(days=each), "file.fetched", "ok", "rosa", ROSA, ALPHA, token.subject)
        for each in range(6)
    ]
    events.instance.write(lambda stores: stores.api_tokens.add(token))
    events.instance.write(lambda stores: stores.audit.append_all(fetched))
    events.instance.write(lambda stores: stores.notifications.choose(ROSA, {EventType.TOKEN_IDLE: chosen}))
    events.change(mail={"url": "smtp://127.0.0.1:1", "sender": "exports@example.org"})
    await events.deliver()
    await record_stopped_scripts(events.instance.state, now + timedelta(hours=1))
    await events.deliver()
    mails = events.instance.state.read(lambda stores: stores.deliveries.backlog(now))["mail"].pending
    assert mails == chosen


def test_revoked_token_is_not_reported(events: Events) -> None:
    now = events.instance.now[0]
    token = ApiToken("t1", "d" * 64, ROSA, ALPHA, "n", "last", now - timedelta(days=80), now + timedelta(days=10))
    events.instance.write(lambda stores: stores.api_tokens.add(token))
    events.instance.write(lambda stores: stores.api_tokens.revoke("t1", now, "test"))
    events.instance.write(lambda stores: record_expiring_tokens(stores, now))
    assert not events.instance.state.read(lambda stores: stores.outbox.incomplete(10))


async def test_old_events_are_deleted_with_their_deliveries(events: Events, receive: Receive) -> None:
    events.add_webhook(receive().url())
    with Receiver().running() as gone:
        url = gone.url("/down")
    events.add_webhook(url)
    events.emit()
    await events.deliver()
    later = events.instance.now[0] + timedelta(days=31)
    # One of the deliveries is pending: the event stays.
    assert events.instance.write(lambda stores: stores.outbox.delete_before(later)) == 0
    for _ in events.timings.retry_after:
        events.instance.advance(days=1)
        await events.deliver()
    # The endpoint was disabled by then, which is a second event.
    assert events.instance.write(lambda stores: stores.outbox.delete_before(later)) == 2
    assert events.deliveries() == []


async def test_backlog_of_a_seat_does_not_delay_another_account(events: Events, receive: Receive) -> None:
    receiver = receive()
    events.add_webhook(receiver.url())
    for _ in range(300):
        events.emit(EventType.SECOND_FACTOR_CHANGED, seat_id=ROSA, data={"change": "disabled", "address": ""})
    events.instance.advance(seconds=1)
    events.emit()
    # The first step reaches the last event, and the deliverer goes on without a pause.
    deliverer = Deliverer(events.context)
    more = await deliverer.step()
    await wait_for_tasks(deliverer)
    assert (more, len(receiver.received)) == (True, 1)
