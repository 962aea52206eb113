"""Cache of insight figures: files with the same content are read once per worker."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from daybreak.insight.published_tables import Interruption
from daybreak.web.fair_queue import FairQueue

T = TypeVar("T")

_MAXIMUM_ENTRIES = 32
_GRACE_SECONDS = 5.0
_INTERRUPTION_SECONDS = 0.1
# A page starts seven computations.
_MAX_PER_ACCOUNT = 28
_MAX_WAITING = 200


class ValueCache(Generic[T]):
    """Up to 32 values by the content and the period that they were computed from. The oldest is dropped first.

    Requests for the same value wait for one computation. It is canceled when the last of them has left, and none has
    come in `grace_seconds`: a page that shows a skeleton reloads itself.
    """

    def __init__(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        self._grace_seconds = grace_seconds
        self._tasks: dict[Hashable, asyncio.Future[T]] = {}
        self._requests: Counter[asyncio.Future[T]] = Counter()

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value, or compute and cache it. A failed computation is not cached."""
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.ensure_future(compute())
            if len(self._tasks) >= _MAXIMUM_ENTRIES:
                del self._tasks[next(iter(self._tasks))]
            self._tasks[key] = task
        self._requests[task] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._requests[task] -= 1
            if not task.done():
                asyncio.get_running_loop().call_later(self._grace_seconds, self._cancel_unwanted, key, task)
            elif task.cancelled() or task.exception() is not None:
                self._drop(key, task)
            if task.done():
                del self._requests[task]

    def _cancel_unwanted(self, key: Hashable, task: asyncio.Future[T]) -> None:
        if not self._requests[task]:
            del self._requests[task]
            if not task.done():
                task.cancel()
                self._drop(key, task)

    def _drop(self, key: Hashable, task: asyncio.Future[T]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]


class FigureCache:
    """One cache per kind of figure, one instance per worker. Files are read one after another."""

    def __init__(self) -> None:
        self._values: defaultdict[str, ValueCache[Any]] = defaultdict(ValueCache)
        self._queue = FairQueue("insight", 1, max_waiting=_MAX_WAITING, max_waiting_per_account=_MAX_PER_ACCOUNT)
        self._computing: Counter[str] = Counter()

    async def get(self, kind: str, key: Hashable, account: str, task: Callable[[Interruption], T]) -> T:
        """Return a cached value, or the result of a task: see `run`."""
        found: T = await self._values[kind].get(key, lambda: self.run(account, task))
        return found

    def is_computing_for(self, account: str) -> bool:
        """Whether figures of an account are being computed, or wait for their turn."""
        return self._computing[account] > 0

    async def run(self, account: str, task: Callable[[Interruption], T]) -> T:
        """Run a task that reads files in a thread, after others. End it when canceled. Raises Unavailable(busy)."""
        self._computing[account] += 1
        try:
            async with self._queue.slot(account):
                return await _interruptible(task)
        finally:
            self._computing[account] -= 1
            if not self._computing[account]:
                del self._computing[account]


async def _interruptible(task: Callable[[Interruption], T]) -> T:
    interruption = Interruption()
    running = asyncio.ensure_future(asyncio.to_thread(task, interruption))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # Repeated, because an engine misses what comes before its query. The slot is in use until then.
        while not running.done():
            interruption.set()
            await asyncio.wait((running,), timeout=_INTERRUPTION_SECONDS)
        raise
