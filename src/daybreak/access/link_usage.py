"""Use of links: the rate limit on links, downloads and their bytes, and the buffer of their audit events.

The limit is for each credential, shared by all workers.

A write to the state database for each link would be many times slower than the link. A worker therefore takes permits
in blocks of one fortieth of the limit. Its first block in a window is not counted until it takes a second one, so that
a credential with few links causes no write. A limit below 80 is exact: each link is counted.

Other limits hold for all workers and nodes together, except that each worker may add two blocks, 5 % of the limit: an
uncounted one, and the rest of one from before the window. A block that another worker has not used up makes the limit
lower by as much.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import RateLimited, Unavailable
from daybreak.settings import Rate
from daybreak.state.stores import State, Stores
from daybreak.state.throttle import ThrottleRule

Counted = Literal["link", "download", "request", "byte"]
_BLOCKS = 40
_FLUSH_SECONDS = 0.25
_MAX_PENDING = 2000


@dataclass(slots=True)
class _Permits:
    """Permits of this worker for one credential. `uncounted` permits are not in the state database.

    At `renewal_at` the worker may take another block without counting it.
    """

    left: int
    uncounted: int
    renewal_at: datetime
    refused_until: datetime | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class LinkRate:
    """Counter of links, downloads, requests or bytes, one per worker. `rate` limits each of them separately."""

    def __init__(self, state: State, rate: Rate, clock: Callable[[], datetime]) -> None:
        self._state = state
        self._rate = rate
        self._clock = clock
        self._block = max(1, rate.attempts // _BLOCKS)
        self._uncounted = self._block if self._block > 1 else 0
        # In the order of `renewal_at`.
        self._permits: dict[str, _Permits] = {}

    async def count(
        self, counted: Counted, subject: str, refusal: Callable[[], AuditEvent], *, amount: int = 1
    ) -> None:
        """Count one or more links, downloads, requests or bytes of the credential `subject`.

        More than the limit count as the limit. `refusal` returns the audit event of a refusal, which is recorded once
        per window. Raises RateLimited, Unavailable.
        """
        key, now, amount = f"{counted}:{subject}", self._clock(), min(amount, self._rate.attempts)
        permits = self._permits_of(key, now)
        if permits.left < amount:
            # One request of the worker takes the next block, and the others wait for it.
            async with permits.lock:
                if permits.left < amount:
                    await self._take_block(counted, key, permits, amount, refusal)
        permits.left -= amount

    def _permits_of(self, key: str, now: datetime) -> _Permits:
        """Return the permits of a key, renewed if their window is over. Forget those of earlier windows."""
        permits = self._permits.get(key)
        # The clock may have been set back.
        if permits is not None and now < permits.renewal_at <= now + self._rate.window:
            return permits
        while self._permits:
            oldest = next(iter(self._permits))
            if now < self._permits[oldest].renewal_at:
                break
            del self._permits[oldest]
        permits = self._permits[key] = _Permits(self._uncounted, self._uncounted, now + self._rate.window)
        return permits

    async def _take_block(
        self, counted: Counted, key: str, permits: _Permits, amount: int, refusal: Callable[[], AuditEvent]
    ) -> None:
        """Take a block, or the missing part of `amount` if that is larger."""
        now, block = self._clock(), max(self._block, amount - permits.left)
        if permits.refused_until is not None and now < permits.refused_until:
            raise self._limited(counted, permits.refused_until - now)
        window_seconds = self._rate.window_seconds
        rule = ThrottleRule(f"{key}:{window_seconds}", self._rate.attempts, window_seconds)
        recorded = ThrottleRule(f"{key}:refused:{window_seconds}", 1, window_seconds)
        attempts = permits.uncounted + block

        def take(stores: Stores) -> int | None:
            refused = stores.throttle.count([rule], now, attempts=attempts)
            if refused is None:
                return None
            if stores.throttle.count([recorded], now) is None:
                stores.audit.append(refusal())
            return refused.wait_seconds

        wait_seconds = await self._state.awrite(take)
        if wait_seconds is not None:
            wait = timedelta(seconds=wait_seconds)
            permits.refused_until = now + wait
            raise self._limited(counted, wait)
        permits.left, permits.uncounted = permits.left + block, 0

    def _limited(self, counted: Counted, wait: timedelta) -> RateLimited:
        return RateLimited(
            f"Too many {counted}s. Wait and try again.",
            retry_after_seconds=math.ceil(wait.total_seconds()),
            limit=self._rate.attempts,
            window_seconds=self._rate.window_seconds,
        )


def byte_rate(state: State, daily_bytes: int, clock: Callable[[], datetime]) -> LinkRate:
    """Return the counter of the bytes that a credential may download in 24 hours."""
    return LinkRate(state, Rate(daily_bytes, timedelta(days=1)), clock)


class AuditBuffer:
    """Buffer of download events, written in one transaction every quarter of a second.

    A power cut loses at most a quarter of a second of them. Events of changes to access are not
    buffered: they are written in the transaction of the change.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._pending: list[AuditEvent] = []
        self._flush_task: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._closing = False

    async def record(self, event: AuditEvent) -> None:
        """Buffer an event. Raises Unavailable when the state database is unavailable and the buffer full.

        A download that cannot be recorded is not served.
        """
        if len(self._pending) >= _MAX_PENDING:
            await self.flush()
        self._pending.append(event)
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = asyncio.get_running_loop().create_task(self._flush_periodically())

    async def flush(self) -> None:
        """Write the buffered events, and wait for those that are being written. Raises Unavailable and keeps them.

        A request that is cancelled does not end the write, which has the events of other requests.
        """
        if self._writing is not None and not self._writing.done():
            await asyncio.shield(self._writing)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())
        await asyncio.shield(self._writing)

    async def _write(self) -> None:
        events, self._pending = self._pending, []
        if not events:
            return
        try:
            await self._state.awrite(lambda stores: stores.audit.append_all(events))
        except Unavailable:
            self._pending = events + self._pending
            raise

    async def aclose(self) -> None:
        """Write the remaining events. Must be called before the state database is closed."""
        self._closing = True
        if self._flush_task is not None:
            await self._flush_task
        await self.flush()

    async def _flush_periodically(self) -> None:
        while self._pending and not self._closing:
            await asyncio.sleep(_FLUSH_SECONDS)
            try:
                await self.flush()
            except Unavailable:
                # The events stay in the buffer; `record` refuses more when it is full.
                await asyncio.sleep(4 * _FLUSH_SECONDS)
