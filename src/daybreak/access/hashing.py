"""Password hashing outside the event loop, in one thread of low priority with a bounded queue."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from daybreak.credentials import passwords
from daybreak.domain.errors import Unavailable

T = TypeVar("T")
# On two cores, more than two hashes at the same time are slower in total.
_THREADS = 1
QUEUE_LENGTH = 18
TIMEOUT_SECONDS = 10.0
_NICE = 5
_LOWEST_PRIORITY = 19


def _ignore(_pending: int) -> None: ...


class PasswordHashing:
    """Hashes and verifies passwords for one worker."""

    def __init__(
        self,
        *,
        queue_length: int = QUEUE_LENGTH,
        timeout_seconds: float = TIMEOUT_SECONDS,
        observe: Callable[[int], None] = _ignore,
    ) -> None:
        """Create the thread.

        Args:
            queue_length: Maximum number of hashes that wait or run.
            timeout_seconds: Maximum time for one hash, waiting included.
            observe: Receives the number of hashes that wait or run, when it changes.
        """
        self._executor = ThreadPoolExecutor(_THREADS, "password-hashing", initializer=_lower_priority)
        self._queue_length = queue_length
        self._timeout_seconds = timeout_seconds
        self._observe = observe
        self._pending = 0

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Return whether the password matches the hash. None takes as long as a hash and matches no password.

        Raises:
            Unavailable: `busy` when the queue is full or the result takes too long.
        """
        known = passwords.DUMMY_HASH if password_hash is None else password_hash
        matches = await self._run(lambda: passwords.verify(known, password))
        return matches and password_hash is not None

    async def hash(self, password: str) -> str:
        """Return a new hash of the password.

        Raises:
            Unavailable: as `verify`.
        """
        return await self._run(lambda: passwords.hash_password(password))

    def close(self) -> None:
        """Drop waiting hashes and end the thread."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._pending >= self._queue_length:
            raise _busy()
        self._count(1)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # Cancellation reaches the executor, so an abandoned hash leaves the queue.
                return await asyncio.wrap_future(self._executor.submit(work))
        except (TimeoutError, MemoryError):
            raise _busy() from None
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self._pending += change
        self._observe(self._pending)


def _lower_priority() -> None:
    """Lower the priority of the thread, so that requests run first.

    In the idle scheduling class, a starved thread would keep the interpreter lock.
    """
    # Linux applies the priority to this thread only. Systems without thread ids reject it.
    with suppress(OSError):
        thread = threading.get_native_id()
        nice = os.getpriority(os.PRIO_PROCESS, thread) + _NICE
        os.setpriority(os.PRIO_PROCESS, thread, min(nice, _LOWEST_PRIORITY))


def _busy() -> Unavailable:
    return Unavailable(
        "Too many sign-ins at the same time. Try again in a few seconds.", code="busy", retry_after_seconds=3
    )
