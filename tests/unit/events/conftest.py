"""An instance with a deliverer."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from daybreak.credentials import webhook_secret
from daybreak.domain.delta import LeaderDelta, ResourceDelta
from daybreak.domain.events import Delivery, Event, EventType, Webhook, new_event
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState
from daybreak.events.context import DeliveryContext, DeliveryTimings
from daybreak.events.deliverer import Deliverer
from daybreak.settings import Settings
from daybreak.snapshots.events import published_event
from daybreak.state.deliveries import DeliveryFilter
from daybreak.state.stores import Stores
from daybreak.telemetry import Tracing
from tests.configured import configured
from tests.parts.webhook_receiver import Receiver
from tests.unit.access.instance import ALPHA, ROSA, Instance, open_instance

_MAX_STEPS = 1000
LOOPBACK = (ip_network("127.0.0.0/8"),)


async def wait_for_tasks(deliverer: Deliverer) -> None:
    """Wait until no request is in progress."""
    await asyncio.gather(*deliverer._tasks.values())


@dataclass
class Events:
    """An instance of the services, and functions that deliver its events."""

    instance: Instance
    settings: Settings
    timings: DeliveryTimings
    secrets: dict[str, str]
    resolve: Any = None
    tracing: Tracing | None = None

    @property
    def context(self) -> DeliveryContext:
        services = self.instance.services
        return DeliveryContext(
            state=services.state,
            settings=self.settings,
            keyring=services.keyring,
            holder="test",
            clock=services.clock,
            ticks=time.monotonic,
            random=secrets.token_bytes,
            timings=self.timings,
            resolve=self.resolve,
            tracing=self.tracing,
        )

    def change(self, **changes: object) -> None:
        """Change settings."""
        self.settings = configured(self.settings, **changes)

    def add_webhook(self, url: str, client_id: str = ALPHA, **more: Any) -> Webhook:
        """Add a webhook, created an hour ago."""
        endpoint_id, secret = self.instance.services.new_id(), webhook_secret.generate(secrets.token_bytes)
        webhook = Webhook(
            endpoint_id=endpoint_id,
            client_id=client_id,
            url=url,
            sealed_secret=self.encrypt(secret, endpoint_id),
            created_at=self.instance.now[0] - timedelta(hours=1),
            created_by=ROSA,
            created_by_email="rosa@example.org",
            **more,
        )
        self.secrets[endpoint_id] = secret
        self.instance.put_grant(ROSA, client_id, roles=("owner",), async_rest_api=True)
        self.instance.write(lambda stores: stores.webhooks.add(webhook))
        return webhook

    def encrypt(self, secret: str, endpoint_id: str) -> str:
        keyring = self.instance.services.keyring.current()
        return webhook_secret.encrypt(secret, endpoint_id=endpoint_id, keyring=keyring, random=secrets.token_bytes)

    def emit(self, type_: EventType = EventType.SNAPSHOT_LATE, **more: Any) -> Event:
        """Add an event to the outbox."""
        data = more.pop("data", {"day": "2026-11-20", "reason": "The run failed.", "next_expected_at": None})
        event = new_event(type_, secrets.token_hex(8), self.instance.now[0], data, **more)
        self.instance.write(lambda stores: stores.outbox.add(event))
        return event

    def publish(self, snapshot_id: str, rows: dict[str, int], deltas: dict[str, ResourceDelta] | None = None) -> None:
        """Publish a snapshot of Alpha, with its event."""
        now = self.instance.now[0]
        snapshot = Snapshot(snapshot_id, SnapshotState.BUILDING, now, now, builder="test")

        def write(stores: Stores) -> None:
            snapshots, current = stores.snapshots, stores.snapshots.current()
            fence = snapshots.begin_manual(snapshot, now, 60).fence
            snapshots.add_leaders(snapshot_id, fence, [ALPHA])
            empty = [ManifestEntry("", resource, 0, "", {}) for resource in rows]
            snapshots.add_entries(
                snapshot_id,
                fence,
                [*empty, *(ManifestEntry(ALPHA, *each, "f", {}) for each in rows.items() if each[1])],
            )
            stores.deltas.begin(snapshot_id, fence, None if current is None else current.snapshot_id)
            stores.deltas.add(snapshot_id, fence, [LeaderDelta(ALPHA, *each) for each in (deltas or {}).items()])
            snapshots.finish(snapshot_id, fence, SnapshotState.COMPLETE, now, report=RunReport())
            snapshots.publish(snapshot_id, None, now)
            published = snapshots.get(snapshot_id)
            assert published is not None
            stores.outbox.add(published_event(published, now))

        self.instance.write(write)

    async def deliver(self) -> None:
        """Add and attempt every delivery that is due."""
        deliverer = Deliverer(self.context)
        await deliverer.step()
        await wait_for_tasks(deliverer)
        # Events that the attempts caused, and further deliveries to the same endpoint.
        for _ in range(_MAX_STEPS):
            if not await self.context.state.aread(lambda stores: stores.outbox.has_work(self.instance.now[0])):
                return
            await deliverer.step()
            await wait_for_tasks(deliverer)
        pytest.fail("The deliverer does not finish.")

    def deliveries(self, **selected: Any) -> list[Delivery]:
        return self.instance.state.read(
            lambda stores: stores.deliveries.list_recent(DeliveryFilter(**selected), 20_000)
        )

    def webhook(self, endpoint_id: str) -> Webhook:
        found = self.instance.state.read(lambda stores: stores.webhooks.get(endpoint_id))
        assert found is not None
        return found


@pytest.fixture(params=["sqlite"])
def events(tmp_path: Path) -> Iterator[Events]:
    """An instance that may send webhooks to this machine. Mail is off."""
    with open_instance(tmp_path) as instance:
        settings = configured(instance.services.settings, events={"allowed_networks": LOOPBACK, "webhooks": True})
        instance.services = replace(instance.services, settings=settings)
        yield Events(instance, settings, DeliveryTimings(timeout_seconds=10.0), {})


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    """A function that starts a receiver of webhooks."""
    with ExitStack() as stack:
        yield lambda *script, **options: stack.enter_context(Receiver(*script, **options).running())
