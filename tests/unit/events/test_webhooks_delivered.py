"""Delivery of webhooks to real receivers: signatures, retries, disabling, rotation."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from daybreak.credentials import webhook_secret
from daybreak.domain.events import DeliveryState, EventType, new_event
from daybreak.events.context import DeliveryTimings
from daybreak.events.deliverer import Deliverer
from daybreak.state.stores import Stores
from daybreak.telemetry import Tracing
from tests.configured import configured
from tests.parts.scripted_service import Request
from tests.parts.webhook_receiver import Answer, Receiver
from tests.unit.access.instance import ALPHA, BRAVO, CLOSED
from tests.unit.events.conftest import Events

Receive = Callable[..., Receiver]


def _now(events: Events) -> None:
    """Move the clock to the present: the verifier refuses old timestamps."""
    events.instance.now[0] = datetime.now(UTC)


def _always(**answer: object) -> Callable[[Request, int], Answer]:
    return lambda _request, _number: Answer(**answer)  # type: ignore[arg-type]


async def test_message_passes_the_reference_verifier(events: Events, receive: Receive) -> None:
    _now(events)
    receiver = receive()
    webhook = events.add_webhook(receiver.url())
    event = events.emit(data={"day": "2026-11-20", "reason": "…"})
    await events.deliver()
    (received,) = receiver.received
    document = Verifier(events.secrets[webhook.endpoint_id]).verify(received.body, received.headers)
    assert document == {
        "type": "snapshot.late",
        "timestamp": event.at.isoformat().replace("+00:00", "Z"),
        "data": {"client_id": ALPHA, "day": "2026-11-20", "reason": "…"},
    }
    assert received.headers["content-type"] == "application/json"
    assert received.headers["user-agent"].startswith("Daybreak/")
    with pytest.raises(WebhookVerificationError):
        Verifier(webhook_secret.generate(lambda count: b"x" * count)).verify(received.body, received.headers)
    (delivery,) = events.deliveries()
    assert (delivery.state, delivery.status, delivery.attempts) == (DeliveryState.DELIVERED, 200, 1)
    assert received.headers["webhook-id"] == delivery.message_id


async def test_every_attempt_has_the_same_id_and_a_new_timestamp(events: Events, receive: Receive) -> None:
    receiver = receive(lambda _request, number: Answer(500 if number < 3 else 204, body=b""))
    events.add_webhook(receiver.url())
    events.emit()
    for seconds in (0, 5, 300):
        events.instance.advance(seconds=seconds)
        await events.deliver()
    assert len({each.headers["webhook-id"] for each in receiver.received}) == 1
    assert len({each.headers["webhook-timestamp"] for each in receiver.received}) == 3
    assert len({each.body for each in receiver.received}) == 1
    (delivery,) = events.deliveries()
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 3)


async def test_retries_follow_the_schedule_until_the_endpoint_is_disabled(events: Events, receive: Receive) -> None:
    receiver = receive(_always(status=503))
    webhook = events.add_webhook(receiver.url())
    events.emit()
    waits = []
    for _ in range(30):
        await events.deliver()
        (delivery,) = events.deliveries(channel="webhook")
        if delivery.next_attempt_at is None:
            break
        waits.append(delivery.next_attempt_at - events.instance.now[0])
        events.instance.now[0] = delivery.next_attempt_at
    hours = [timedelta(hours=count) for count in (2, 5, 10, 14, 20, 24, 24, 24)]
    assert waits == [timedelta(seconds=5), timedelta(minutes=5), timedelta(minutes=30), *hours]
    assert delivery.state is DeliveryState.FAILED
    disabled = events.webhook(webhook.endpoint_id)
    assert disabled.disabled_reason == "Every attempt failed for five days."
    assert disabled.failing_since is not None
    assert disabled.disabled_at == events.instance.now[0] >= disabled.failing_since + timedelta(days=5)
    (recorded,) = events.instance.audit("webhook.disabled")
    assert recorded.client_id == ALPHA


async def test_success_ends_the_period_of_failures(events: Events, receive: Receive) -> None:
    receiver = receive(lambda _request, number: Answer(500 if number == 1 else 200))
    webhook = events.add_webhook(receiver.url())
    events.emit()
    await events.deliver()
    assert events.webhook(webhook.endpoint_id).failing_since is not None
    events.instance.advance(seconds=5)
    await events.deliver()
    assert events.webhook(webhook.endpoint_id).failing_since is None


@pytest.mark.parametrize("inactive", [False, True])
async def test_time_without_attempts_does_not_count(events: Events, receive: Receive, *, inactive: bool) -> None:
    works_since = events.instance.now[0] + timedelta(days=30, seconds=1)
    receiver = receive(lambda _request, _number: Answer(200 if events.instance.now[0] > works_since else 500))
    webhook = events.add_webhook(receiver.url())
    events.emit()
    await events.deliver()
    if inactive:
        events.instance.change_account(ALPHA, active=False)
        events.instance.advance(seconds=5)
        await events.deliver()
        events.instance.change_account(ALPHA, active=True)
    # Without attempts: either the account was inactive, or the service was stopped.
    events.instance.now[0] = works_since
    events.emit()
    await events.deliver()
    assert (len(receiver.received), events.webhook(webhook.endpoint_id).state) == (2 if inactive else 3, "failing")
    events.instance.advance(minutes=5)
    await events.deliver()
    ended = DeliveryState.SKIPPED if inactive else DeliveryState.DELIVERED
    assert sorted(each.state for each in events.deliveries()) == ["delivered", ended]
    assert events.webhook(webhook.endpoint_id).state == "enabled"


async def test_410_disables_immediately(events: Events, receive: Receive) -> None:
    receiver = receive(_always(status=410))
    webhook = events.add_webhook(receiver.url())
    events.emit()
    await events.deliver()
    found = events.webhook(webhook.endpoint_id)
    assert found.disabled_reason == "The endpoint answered 410 Gone."
    assert [each.state for each in events.deliveries()] == [DeliveryState.FAILED]
    events.emit()
    events.instance.advance(days=1)
    await events.deliver()
    assert len(receiver.received) == 1


async def test_redirects_are_not_followed(events: Events, receive: Receive) -> None:
    target = receive()
    receiver = receive(_always(status=307, headers=(("Location", target.url("/secret")),)))
    events.add_webhook(receiver.url())
    events.emit()
    await events.deliver()
    assert target.received == []
    (delivery,) = events.deliveries()
    assert (delivery.status, delivery.detail) == (307, "Status 307: redirects are not followed.")


async def test_response_body_is_ignored_beyond_a_kilobyte(events: Events, receive: Receive) -> None:
    receiver = receive(_always(body=b"x" * 100_000_000))
    events.add_webhook(receiver.url())
    events.emit()
    await events.deliver()
    assert events.deliveries()[0].state is DeliveryState.DELIVERED
    assert receiver.sent_octets < 20_000_000


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ({"reset": True}, "The connection ended without a valid HTTP response."),
        ({"hang": True}, "No response within 0.5 seconds."),
    ],
)
async def test_broken_connections_are_retried(
    events: Events, receive: Receive, answer: dict[str, object], detail: str
) -> None:
    events.timings = DeliveryTimings(timeout_seconds=0.5)
    receiver = receive(_always(**answer))
    events.add_webhook(receiver.url())
    events.emit()
    await events.deliver()
    (delivery,) = events.deliveries()
    assert (delivery.state, delivery.status, delivery.detail) == (DeliveryState.PENDING, None, detail)


async def test_receiver_that_is_down_is_retried(events: Events, receive: Receive) -> None:
    with Receiver().running() as receiver:
        url = receiver.url()
    events.add_webhook(url)
    events.emit()
    await events.deliver()
    assert events.deliveries()[0].detail == "The connection failed."


async def test_rotated_secrets_sign_together_for_a_day(events: Events, receive: Receive) -> None:
    _now(events)
    receiver = receive()
    webhook = events.add_webhook(receiver.url())
    old, new = events.secrets[webhook.endpoint_id], webhook_secret.generate(lambda count: bytes(range(count)))
    sealed, until = events.encrypt(new, webhook.endpoint_id), events.instance.now[0] + timedelta(hours=24)
    events.instance.write(lambda stores: stores.webhooks.rotate(webhook.endpoint_id, sealed, until))
    events.emit()
    await events.deliver()
    for secret in (old, new):
        Verifier(secret).verify(receiver.received[0].body, receiver.received[0].headers)
    assert receiver.received[0].headers["webhook-signature"].count("v1,") == 2
    events.instance.advance(hours=24)
    events.emit()
    await events.deliver()
    assert receiver.received[1].headers["webhook-signature"].count("v1,") == 1


async def test_events_reach_webhooks_of_active_accounts_only(events: Events, receive: Receive) -> None:
    receiver = receive()
    for client_id in (ALPHA, ALPHA, BRAVO, CLOSED):
        events.add_webhook(receiver.url(f"/{client_id}"), client_id)
    events.emit()
    await events.deliver()
    assert sorted(each.path for each in receiver.received) == sorted([f"/{ALPHA}", f"/{ALPHA}", f"/{BRAVO}"])
    ids = {each.path: each.headers["webhook-id"] for each in receiver.received}
    assert len({each.headers["webhook-id"] for each in receiver.received if each.path == f"/{ALPHA}"}) == 1
    assert len(set(ids.values())) == 2


async def test_webhook_does_not_receive_what_happened_before_it(events: Events, receive: Receive) -> None:
    receiver = receive()
    events.emit()
    events.instance.advance(hours=2)
    events.add_webhook(receiver.url())
    await events.deliver()
    assert receiver.received == []


async def test_operator_events_reach_no_webhook(events: Events, receive: Receive) -> None:
    receiver = receive()
    events.add_webhook(receiver.url())
    events.emit(EventType.SNAPSHOT_HELD, data={"snapshot_id": "x", "findings": []})
    await events.deliver()
    assert receiver.received == []


async def test_rolled_back_transaction_sends_nothing(events: Events, receive: Receive) -> None:
    receiver = receive()
    events.add_webhook(receiver.url())

    class RolledBackError(Exception):
        pass

    with pytest.raises(RolledBackError):
        events.instance.write(lambda stores: _fail_after(stores, RolledBackError))
    await events.deliver()
    assert (receiver.received, events.deliveries()) == ([], [])


def _fail_after(stores: Stores, error: type[Exception]) -> None:
    event = new_event(EventType.SNAPSHOT_LATE, "never", datetime.now(UTC), {"day": "2026-11-20"})
    stores.outbox.add(event)
    raise error


async def test_slow_endpoint_does_not_delay_another_account(events: Events, receive: Receive) -> None:
    # No limit is reached during the test.
    events.timings = DeliveryTimings(timeout_seconds=900, lease_seconds=3600)
    slow = receive(_always(hang=True))
    fast = receive()
    events.add_webhook(slow.url(), ALPHA)
    events.add_webhook(fast.url(), BRAVO)
    for _ in range(25):
        events.emit()
    deliverer = Deliverer(events.context)
    while len(fast.received) < 25:
        await deliverer.step()
        await asyncio.sleep(0.01)
    # All of these arrived while the first request to the slow endpoint was still waiting.
    assert (slow.hanging, len(slow.received)) == (1, 1)
    for task in list(deliverer._tasks.values()):
        task.cancel()


async def test_failing_endpoints_do_not_occupy_the_slots_of_others(
    events: Events, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.events.deliverer._SLOTS", 2)
    # No limit is reached during the test.
    events.timings = DeliveryTimings(timeout_seconds=900, lease_seconds=3600)
    failing = receive(lambda _request, number: Answer(500) if number == 1 else Answer(hang=True))
    for path in ("/one", "/two"):
        events.add_webhook(failing.url(path), ALPHA)
    for _ in range(2):
        events.emit()
    deliverer = Deliverer(events.context)
    await deliverer.step()
    working = receive()
    for number in range(3):
        events.add_webhook(working.url(f"/{number}"), BRAVO)
    events.emit()
    for _ in range(1000):
        await deliverer.step()
        assert len(deliverer._tasks) <= 4
        if failing.hanging == 2 and len(working.received) == 3:
            break
        await asyncio.sleep(0.01)
    assert (failing.hanging, len(working.received)) == (2, 3)
    for task in list(deliverer._tasks.values()):
        task.cancel()


async def test_database_contains_no_secret_in_clear(events: Events, receive: Receive) -> None:
    webhook = events.add_webhook(receive().url())
    events.emit()
    await events.deliver()
    secret = events.secrets[webhook.endpoint_id]
    content = b"".join(path.read_bytes() for path in events.instance.path.glob("state.db*"))
    assert secret.encode() not in content
    assert secret.removeprefix("whsec_").encode() not in content
    assert webhook.url.encode() in content
    json.loads(events.deliveries()[0].body)


async def test_webhook_passes_its_trace_on(events: Events, receive: Receive) -> None:
    """The span of the attempt links to the run that the message is about."""
    receiver = receive()
    run = "00000000-0000-4000-8000-00000000000a"
    tracing = Tracing(configured(telemetry={"url": receiver.url("")}), "builder")
    events.tracing = tracing
    events.add_webhook(receiver.url())
    events.emit(data={"snapshot_id": run})
    await events.deliver()
    tracing.close()
    (delivered,), (sent,) = receiver.of("/hook"), receiver.of("/v1/traces")
    (resource,) = ExportTraceServiceRequest.FromString(sent.body).resource_spans
    (span,) = [span for scope in resource.scope_spans for span in scope.spans]
    assert delivered.headers["traceparent"].startswith(f"00-{span.trace_id.hex()}-{span.span_id.hex()}-")
    assert span.name == "webhook snapshot.late"
    assert [link.trace_id.hex() for link in span.links] == [run.replace("-", "")]
