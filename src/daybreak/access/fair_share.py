"""Limits of work that runs at the same time, with a fair share for each account: one rule for transfers and threads."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from daybreak.domain.errors import Unavailable

T = TypeVar("T")
_RETRY_AFTER_SECONDS = 5
_MAX_THREAD_TASKS = 64


def busy(kind: str = "requests of this kind") -> Unavailable:
    """Return the error for too much work of a kind."""
    return Unavailable(
        f"Too many {kind} at the same time. Try again in a few seconds.",
        code="busy",
        retry_after_seconds=_RETRY_AFTER_SECONDS,
    )


class FairShare:
    """Limits how many pieces of work run at the same time.

    The share of an account is the number that others could still begin. One account alone therefore uses half of the
    limit, and each further account leaves room for the next (Choudhury and Hahne, dynamic thresholds).
    """

    def __init__(self, maximum: int, kind: str = "requests of this kind") -> None:
        """`kind` is in the text of errors."""
        self._maximum = maximum
        self._kind = kind
        self._running: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """Number of pieces of work that run, of all accounts."""
        return self._running.total()

    @contextmanager
    def slot(self, account: str) -> Iterator[None]:
        """Count work of an account while it runs. Raises Unavailable(busy)."""
        self.take(account)
        try:
            yield
        finally:
            self.release(account)

    def take(self, account: str) -> None:
        """Count work of an account. Raises Unavailable(busy) if the limit or the share of the account is reached."""
        if self._running[account] >= self._maximum - self.running:
            raise busy(self._kind)
        self._running[account] += 1

    def release(self, account: str) -> None:
        """Count the end of the work."""
        self._running[account] -= 1
        if not self._running[account]:
            del self._running[account]


class BoundedThreads:
    """Runs short tasks that would block the event loop in threads. One per worker.

    The queue of `asyncio.to_thread` has no limit.
    """

    def __init__(self) -> None:
        self._share = FairShare(_MAX_THREAD_TASKS)

    async def run(self, account: str, task: Callable[[], T]) -> T:
        """Run a task of an account or seat. If canceled, it counts until its thread ends. Raises Unavailable(busy)."""
        self._share.take(account)
        running = asyncio.ensure_future(asyncio.to_thread(task))
        running.add_done_callback(lambda _: self._share.release(account))
        return await asyncio.shield(running)
