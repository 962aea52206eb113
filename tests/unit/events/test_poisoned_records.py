"""One record that cannot be delivered: the others are, and the fault is visible."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from daybreak.domain.events import DeliveryState, EventType
from daybreak.events import mail_delivery
from daybreak.events.context import DeliveryContext
from daybreak.events.deliverer import Deliverer
from tests.parts.mail_server import MailServer, mail_server
from tests.parts.webhook_receiver import Receiver
from tests.unit.access.instance import BRAVO, INES, OMAR, ROSA
from tests.unit.events.conftest import Events, wait_for_tasks


@pytest.fixture
def server(events: Events) -> Iterator[MailServer]:
    """A mail server of the instance."""
    with mail_server() as found:
        events.change(mail={"url": found.url, "sender": "exports@example.org"})
        yield found


def _execute(events: Events, sql: str, *values: object) -> None:
    """Change the state database as an earlier version or another program may have left it."""
    with closing(sqlite3.connect(events.instance.path / "state.db")) as connection, connection:
        connection.execute(sql, values)


def _states(events: Events) -> dict[str | None, str]:
    return {each.seat_id: each.state.value for each in events.deliveries(channel="mail")}


@pytest.mark.parametrize("address", ["ana@[example.org", "ana,victim@example.org", "ana@example.org\r\nBcc: x@y.org"])
async def test_malformed_address_fails_alone(events: Events, server: MailServer, address: str) -> None:
    _execute(events, "UPDATE seats SET email = ? WHERE seat_id = ?", address, ROSA)
    events.emit(EventType.SNAPSHOT_LATE)
    await events.deliver()
    assert sorted(server.recipients) == ["ines@example.org", "omar@example.org"]
    assert _states(events)[ROSA] == "skipped"


@pytest.mark.parametrize("body", ["not JSON", json.dumps({"at": "yesterday", "reason": "\ud800"}), "[]"])
async def test_unreadable_mail_fails_alone(events: Events, server: MailServer, body: str) -> None:
    events.emit(EventType.SNAPSHOT_LATE)
    await _expand_only(events)
    _execute(events, "UPDATE deliveries SET body = ? WHERE seat_id = ?", body, ROSA)
    await events.deliver()
    assert sorted(server.recipients) == ["ines@example.org", "omar@example.org"]
    assert _states(events)[ROSA] == "failed"
    assert len(server.mails) == 2


@pytest.mark.parametrize(
    "url", ["https://[example.org/", "not a URL", "https://exa\ud800mple.org/", "https://h:99999/"]
)
async def test_malformed_webhook_fails_alone(events: Events, receive: Callable[..., Receiver], url: str) -> None:
    receiver = receive()
    broken = events.add_webhook(receiver.url("/broken"))
    events.add_webhook(receiver.url("/fine"), BRAVO)
    _execute(
        events, "UPDATE webhooks SET url = CAST(? AS TEXT) WHERE endpoint_id = ?", _octets(url), broken.endpoint_id
    )
    events.emit()
    await events.deliver()
    assert [each.path for each in receiver.received] == ["/fine"]
    (failed,) = events.deliveries(endpoint_id=broken.endpoint_id)
    assert failed.attempts == 1


def _octets(text: str) -> bytes | str:
    return text if text.isprintable() else text.replace("\ud800", "\u0000")


async def test_unreadable_event_fails_alone(events: Events, server: MailServer) -> None:
    event = events.emit(EventType.SECOND_FACTOR_CHANGED, seat_id=OMAR, data={"change": "passkey_added", "address": ""})
    _execute(events, "UPDATE outbox SET type = 'webhook.test' WHERE event_id = ?", event.event_id)
    later = events.emit(EventType.SNAPSHOT_LATE)
    _execute(events, "UPDATE outbox SET type = 'of.a.later.version' WHERE event_id = ?", later.event_id)
    events.emit(EventType.SECOND_FACTOR_CHANGED, seat_id=INES, data={"change": "passkey_added", "address": ""})
    await events.deliver()
    assert server.recipients == ["ines@example.org"]


async def test_failed_mail_task_is_reported_and_starts_again(
    events: Events, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    events.emit(EventType.SNAPSHOT_LATE)
    ticks = [0.0]
    deliverer = Deliverer(_with_ticks(events, ticks))

    async def broken(_self: object) -> None:
        raise RuntimeError("a defect")

    def faults() -> list[tuple[str, int]]:
        found = events.instance.state.read(lambda stores: stores.task_faults.list_all())
        return [(each.task, each.failures) for each in found]

    with monkeypatch.context() as patch:
        patch.setattr(mail_delivery.MailDelivery, "end_batch", broken)
        await deliverer.step()
        await wait_for_tasks(deliverer)
    assert faults() == [("mail", 1)]
    events.emit(EventType.SNAPSHOT_LATE)
    ticks[0] = 0.5
    await deliverer.step()
    assert len(server.mails) == 3
    ticks[0] = 1.5
    await deliverer.step()
    await wait_for_tasks(deliverer)
    assert faults() == []
    assert len(server.mails) == 6
    assert {each.state for each in events.deliveries()} == {DeliveryState.DELIVERED}


def _with_ticks(events: Events, ticks: list[float]) -> DeliveryContext:
    return replace(events.context, ticks=lambda: ticks[0])


async def _expand_only(events: Events) -> None:
    """Add the deliveries, and attempt none."""
    deliverer = Deliverer(events.context)
    deliverer._paused_until["mail"] = float("inf")
    await deliverer.step()
