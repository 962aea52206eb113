"""The deliverer: a loop in the builder process that sends what the outbox contains.

One process delivers at a time: it holds a lease in the state database. Each endpoint has its own task with one request
at a time, so that a slow endpoint delays only its own deliveries. An attempt that is not recorded, because the process
died, is repeated with the same message id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import structlog

from daybreak.domain.errors import DaybreakError, Unavailable
from daybreak.domain.events import Delivery
from daybreak.events.context import DeliveryContext
from daybreak.events.expansion import expand
from daybreak.events.expiring_tokens import record_expiring_tokens
from daybreak.events.mail_delivery import MailDelivery
from daybreak.events.webhook_delivery import WebhookDelivery
from daybreak.state.stores import Stores

_log = structlog.get_logger("daybreak.events")
# Endpoints that failed before have separate slots: many of them cannot occupy those of the others.
_SLOTS = 100
_PER_ENDPOINT = 10
_EVENTS_PER_STEP = 20
_MAILS_PER_STEP = 20
_MAIL = "mail"
_SWEEP_SECONDS = 3600.0
_AFTER_ERROR_SECONDS = 5.0


class Deliverer:
    """Delivers events until the context's `stop` is set."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context = context
        self._webhooks = WebhookDelivery(context)
        self._mails = MailDelivery(context)
        # Tasks by endpoint id, and the task that sends mails.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._crashed: set[str] = set()
        self._slots, self._failing_slots = asyncio.Semaphore(_SLOTS), asyncio.Semaphore(_SLOTS)
        self._lease_until = 0.0
        self._swept_at: float | None = None
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Deliver until stopped, then wait for the requests in progress. Errors are logged and retried."""
        # The resolver blocks a thread for each lookup.
        executor = ThreadPoolExecutor(2 * _SLOTS, "events")
        asyncio.get_running_loop().set_default_executor(executor)
        _log.info("deliverer.started", holder=self._context.holder)
        while not self._context.stop.is_set():
            seconds = self._context.timings.poll_seconds
            try:
                await self.step()
            except DaybreakError as error:
                _log.error("deliverer.error", code=error.code, reason=error.message)
                seconds = max(seconds, _AFTER_ERROR_SECONDS)
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        with suppress(Unavailable):
            await self._context.state.awrite(lambda stores: stores.outbox.release_lease(self._context.holder))
        _log.info("deliverer.stopped", holder=self._context.holder)

    async def step(self) -> None:
        """Add missing deliveries, and start tasks for those that are due. Raises DaybreakError."""
        context = self._context
        now = context.clock()
        await self._sweep()
        if not self._tasks and not await context.state.aread(lambda stores: stores.outbox.has_work(now)):
            return
        if not await self._hold_lease():
            return
        for entry in await context.state.aread(lambda stores: stores.outbox.incomplete(_EVENTS_PER_STEP)):
            # Renews the lease between pages: an event of many accounts takes longer than a lease.
            await expand(context.state, context.settings, entry, now, self._hold_lease)
        await self._start_webhooks()
        if _MAIL not in self._excluded:
            now = context.clock()
            mails = await context.state.aread(lambda stores: stores.deliveries.due_mails(now, _MAILS_PER_STEP))
            if mails:
                self._start(_MAIL, self._deliver_mails(mails))

    async def _start_webhooks(self) -> None:
        """Start a task for each endpoint that has due deliveries and no task."""
        now, excluded = self._context.clock(), self._excluded

        def read(stores: Stores) -> tuple[list[Delivery], list[str]]:
            due = stores.deliveries.due_webhooks(now, per_endpoint=_PER_ENDPOINT, exclude=excluded)
            return due, stores.webhooks.list_failing() if due else []

        due, failing = await self._context.state.aread(read)
        by_endpoint: dict[str, list[Delivery]] = {}
        for delivery in due:
            by_endpoint.setdefault(delivery.endpoint_id or "", []).append(delivery)
        for endpoint_id, deliveries in by_endpoint.items():
            slots = self._failing_slots if endpoint_id in failing else self._slots
            self._start(endpoint_id, self._deliver_webhooks(deliveries, slots))

    async def wait_for_tasks(self) -> None:
        """Wait until no request is in progress."""
        await asyncio.gather(*self._tasks.values())

    async def _sweep(self) -> None:
        ticks = self._context.ticks()
        if self._swept_at is not None and ticks - self._swept_at < _SWEEP_SECONDS:
            return
        now = self._context.clock()
        await self._context.state.awrite(lambda stores: record_expiring_tokens(stores, now))
        self._swept_at = ticks

    async def _hold_lease(self) -> bool:
        """Take the lease, or renew it when half of it is left. Return whether this process has it."""
        context, seconds = self._context, self._context.timings.lease_seconds
        if self._lease_until - context.ticks() > seconds / 2:
            return True
        requested_at, now = context.ticks(), context.clock()
        until = now + timedelta(seconds=seconds)
        if await context.state.awrite(lambda stores: stores.outbox.take_lease(context.holder, now, until)):
            self._lease_until = requested_at + seconds
            return True
        self._lease_until = 0.0
        return False

    def _may_attempt(self) -> bool:
        """Return whether an attempt that starts now ends before the lease does."""
        timings = self._context.timings
        remaining = self._lease_until - self._context.ticks()
        return remaining > timings.timeout_seconds and not self._context.stop.is_set()

    @property
    def _excluded(self) -> tuple[str, ...]:
        """Names of tasks that must not be started."""
        return (*self._tasks, *self._crashed)

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        name = task.get_name()
        del self._tasks[name]
        self._wake.set()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # A defect. It must not stop the deliveries to others, nor repeat until the process starts again.
            self._crashed.add(name)
            _log.error("deliverer.crashed", recipient=name, exc_info=error)

    async def _deliver_webhooks(self, deliveries: list[Delivery], slots: asyncio.Semaphore) -> None:
        for delivery in deliveries:
            async with slots:
                if not self._may_attempt():
                    return
                if not await self._guarded(self._webhooks.attempt(delivery)):
                    return

    async def _deliver_mails(self, deliveries: list[Delivery]) -> None:
        try:
            for delivery in deliveries:
                if not self._may_attempt() or not await self._guarded(self._mails.attempt(delivery)):
                    return
        finally:
            await self._mails.disconnect()

    async def _guarded(self, attempt: Coroutine[Any, Any, None]) -> bool:
        """Await an attempt. Return False after logging an error of the service; the delivery stays due."""
        try:
            await attempt
        except DaybreakError as error:
            _log.error("deliverer.error", code=error.code, reason=error.message)
            return False
        return True


def run_deliverer(context: DeliveryContext) -> None:
    """Run the deliverer in this thread until the context's `stop` is set, and close its state."""

    async def run() -> None:
        deliverer = Deliverer(context)
        try:
            await deliverer.run()
        finally:
            await context.state.aclose()

    asyncio.run(run())
