"""The deliverer: a loop in the builder process that sends what the outbox contains.

One process delivers at a time: it holds a lease in the state database. An endpoint with due deliveries has its own task
with one request at a time, so that a slow endpoint delays only its own deliveries. An attempt that is not recorded,
because the process died, is repeated with the same message id.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog

from daybreak.domain.errors import DaybreakError, Unavailable
from daybreak.domain.events import Attempt, Delivery, DeliveryState
from daybreak.events.context import DeliveryContext
from daybreak.events.expansion import expand
from daybreak.events.expiring_tokens import record_expiring_tokens, record_stopped_scripts
from daybreak.events.mail_delivery import MailDelivery
from daybreak.events.mail_server import MAIL_SECONDS
from daybreak.events.webhook_delivery import WebhookDelivery
from daybreak.state.outbox import OutboxEntry
from daybreak.state.supervision import Supervisor

_log = structlog.get_logger("daybreak.events")
# Maximum number of tasks for endpoints that work, and for those whose last attempt failed: many of these cannot occupy
# the slots of the others.
_SLOTS = 100
# For mails and the records of faults.
_OTHER_THREADS = 8
_EVENTS_PER_STEP = 100
_MAILS_PER_STEP = 20
_MAIL = "mail"
_STEPS = "deliverer"
_SWEEP_SECONDS = 3600.0

T = TypeVar("T")


class Deliverer:
    """Delivers events until the context's `stop` is set."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context = context
        self._webhooks = WebhookDelivery(context)
        self._mails = MailDelivery(context)
        # Tasks by endpoint id, and the task that sends mails.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # Whether the last attempt had failed, for each endpoint with a task.
        self._was_failing: dict[str, bool] = {}
        # When tasks that failed start again, in ticks.
        self._paused_until: dict[str, float] = {}
        self._supervisor = Supervisor(context.state, context.holder, context.clock)
        self._lease_until = 0.0
        self._swept_at: float | None = None
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Deliver until stopped, then wait for the requests in progress. Errors are recorded and retried."""
        # The resolver blocks a thread for each lookup.
        executor = ThreadPoolExecutor(2 * _SLOTS + _OTHER_THREADS, "events")
        asyncio.get_running_loop().set_default_executor(executor)
        _log.info("deliverer.started", holder=self._context.holder)
        while not self._context.stop.is_set():
            self._wake.clear()
            more, error = await _outcome(self.step())
            if error is not None:
                pause = await asyncio.to_thread(self._supervisor.record_failure, _STEPS, error)
                await asyncio.to_thread(self._context.stop.wait, pause)
                continue
            await asyncio.to_thread(self._supervisor.record_success, _STEPS)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.0 if more else self._context.timings.poll_seconds):
                    await self._wake.wait()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        with suppress(Unavailable):
            await self._context.state.awrite(lambda stores: stores.outbox.release_lease(self._context.holder))
        _log.info("deliverer.stopped", holder=self._context.holder)

    async def step(self) -> bool:
        """Add missing deliveries, and start tasks for those that are due. Raises DaybreakError.

        Return whether another step has work. Events are taken in turn from all accounts, so that no account waits for
        the events of another.
        """
        context = self._context
        await context.state.aread(lambda stores: stores.nodes.require_clock(context.clock))
        now = context.clock()
        await self._sweep()
        if not self._tasks and not await context.state.aread(lambda stores: stores.outbox.has_work(now)):
            return False
        if not await self._hold_lease():
            return False
        entries = await context.state.aread(lambda stores: stores.outbox.incomplete(_EVENTS_PER_STEP))
        for entry in entries:
            await self._expand(entry, now)
        are_left = [await self._start_webhooks(failing=each) for each in (False, True)]
        if _MAIL not in self._excluded:
            now = context.clock()
            mails = await context.state.aread(lambda stores: stores.deliveries.due_mails(now, _MAILS_PER_STEP))
            if mails:
                self._start(_MAIL, self._deliver_mails(mails))
        return any(are_left) or len(entries) == _EVENTS_PER_STEP

    async def _expand(self, entry: OutboxEntry, now: datetime) -> None:
        """Add the deliveries of an event. One that cannot be read ends, so that it does not stop the others."""
        context = self._context
        # Renews the lease between pages: an event of many accounts takes longer than a lease.
        _, error = await _outcome(expand(context.state, context.settings, entry, now, self._hold_lease))
        if isinstance(error, DaybreakError):
            raise error
        if error is not None:
            event = entry.event
            _log.error("event.failed", event_id=event.event_id, type=event.type, exc_info=error)
            await context.state.awrite(lambda stores: stores.outbox.complete(event.event_id, now))

    async def _start_webhooks(self, *, failing: bool) -> bool:
        """Start tasks for endpoints that have due deliveries and no task, up to the number of free slots.

        Return whether deliveries to other endpoints may be left.
        """
        now, excluded = self._context.clock(), self._excluded
        free = _SLOTS - [*self._was_failing.values()].count(failing)
        if not free:
            return False
        due = await self._context.state.aread(
            lambda stores: stores.deliveries.due_webhooks(now, failing=failing, exclude=excluded, limit=free)
        )
        by_endpoint: dict[str, list[Delivery]] = {}
        for delivery in due:
            by_endpoint.setdefault(delivery.endpoint_id or "", []).append(delivery)
        for endpoint_id, deliveries in by_endpoint.items():
            self._was_failing[endpoint_id] = failing
            self._start(endpoint_id, self._deliver_webhooks(deliveries))
        return len(by_endpoint) < len(due) == free

    async def _sweep(self) -> None:
        ticks = self._context.ticks()
        if self._swept_at is not None and ticks - self._swept_at < _SWEEP_SECONDS:
            return
        now = self._context.clock()
        await self._context.state.awrite(lambda stores: record_expiring_tokens(stores, now))
        await record_stopped_scripts(self._context.state, now)
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

    def _may_attempt(self, seconds: float) -> bool:
        """Return whether an attempt that starts now and takes that long ends before the lease does."""
        remaining = self._lease_until - self._context.ticks()
        return remaining > seconds and not self._context.stop.is_set()

    @property
    def _excluded(self) -> tuple[str, ...]:
        """Names of tasks that must not be started."""
        now = self._context.ticks()
        return (*self._tasks, *(name for name, until in self._paused_until.items() if until > now))

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._supervised(name, work), name=name)
        self._tasks[name] = task
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        name = task.get_name()
        del self._tasks[name]
        self._was_failing.pop(name, None)
        self._wake.set()

    async def _supervised(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a task. After an error it starts again later, and the tasks of other recipients go on."""
        _, error = await _outcome(work)
        task = name if name == _MAIL else f"webhook {name}"
        if error is not None:
            pause = await asyncio.to_thread(self._supervisor.record_failure, task, error)
            self._paused_until[name] = self._context.ticks() + pause
        elif name == _MAIL or self._paused_until.pop(name, None) is not None:
            await asyncio.to_thread(self._supervisor.record_success, task)

    async def _deliver_webhooks(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            if not self._may_attempt(self._context.timings.timeout_seconds):
                return
            if not await self._attempt(delivery, self._webhooks.attempt(delivery)):
                return

    async def _deliver_mails(self, deliveries: list[Delivery]) -> None:
        try:
            for delivery in deliveries:
                if not self._may_attempt(MAIL_SECONDS):
                    return
                if not await self._attempt(delivery, self._mails.attempt(delivery)):
                    # The others wait for the mail server. When it can be used again, they follow immediately.
                    self._paused_until[_MAIL] = self._context.ticks() + self._context.timings.mail_pause_seconds
                    return
        finally:
            await self._mails.end_batch()

    async def _attempt(self, delivery: Delivery, attempt: Coroutine[Any, Any, bool]) -> bool:
        """Await an attempt, and return its result. Return False after an error of the service; the delivery stays due.

        Any other error is of this delivery alone, such as a text that no mail can contain: the delivery fails.
        """
        context = self._context
        goes_on, error = await _outcome(attempt)
        if isinstance(error, DaybreakError):
            _log.error("deliverer.error", code=error.code, reason=error.message)
            # The next attempt needs a new lease, and thereby a database that can record its result: until then, the
            # message would be sent again and again.
            self._lease_until = 0.0
            return False
        if error is not None:
            _log.error("delivery.failed", delivery_id=delivery.delivery_id, type=delivery.type, exc_info=error)
            detail = f"The message cannot be sent ({type(error).__name__}). The log has the details."
            failed = Attempt(delivery.attempts + 1, context.clock(), None, detail, 0)
            await context.state.awrite(lambda stores: stores.deliveries.record(delivery, failed, DeliveryState.FAILED))
            return True
        return bool(goes_on)


async def _outcome(work: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    results: Sequence[T | BaseException] = await asyncio.gather(work, return_exceptions=True)
    found = results[0]
    return (None, found) if isinstance(found, BaseException) else (found, None)


def run_deliverer(context: DeliveryContext) -> None:
    """Run the deliverer in this thread until the context's `stop` is set, and close its state."""

    async def run() -> None:
        deliverer = Deliverer(context)
        try:
            await deliverer.run()
        finally:
            await context.state.aclose()

    asyncio.run(run())
