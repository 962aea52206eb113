"""Argon2 off the event loop, at most two at once per machine, behind a short queue.

More at once is slower in total on two cores and would take the processor from downloads. Worker
processes share the slots through file locks, which end with their process.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from daybreak.credentials import passwords
from daybreak.domain.errors import Unavailable

T = TypeVar("T")
_POLL_SECONDS = 0.004
# Before the builder, which has hours.
_NICE = 5
_LAST = 19


class PasswordHashing:
    """Hashes and verifies passwords in its own threads."""

    def __init__(
        self,
        *,
        slots: int = 2,
        queue_length: int = 16,
        wait_seconds: float = 10.0,
        slots_folder: Path | None = None,
    ) -> None:
        """`slots_folder` holds the lock files that processes of one machine share (made when it is
        not there); None: the slots are this process's alone."""
        self._slots = slots
        self._queue_length = queue_length
        self._wait_seconds = wait_seconds
        self._folder = slots_folder
        self._pending = 0
        self._threads = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="argon2", initializer=_go_last)
        if slots_folder is not None:
            slots_folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether the password is the hash's; None costs the same and is never true. Raises
        Unavailable(busy) when too many wait already."""
        known = password_hash if password_hash is not None else passwords.DUMMY_HASH
        good = await self._run(lambda: passwords.verify(known, password))
        return good and password_hash is not None

    async def hash(self, password: str) -> str:
        """A new hash. Raises Unavailable(busy)."""
        return await self._run(lambda: passwords.hash_password(password))

    def close(self) -> None:
        """Ends the threads once what they do is done."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._pending >= self._slots + self._queue_length:
            raise _busy()
        self._pending += 1
        loop = asyncio.get_running_loop()

        def finished(_: Future[T]) -> None:
            # Also when the request was cancelled: a slot is free when its work is over.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._leave)

        future = self._threads.submit(self._in_slot, work)
        future.add_done_callback(finished)
        return await asyncio.wrap_future(future)

    def _leave(self) -> None:
        self._pending -= 1

    def _in_slot(self, work: Callable[[], T]) -> T:
        if self._folder is None:
            return work()
        with self._slot(self._folder):
            return work()

    @contextmanager
    def _slot(self, folder: Path) -> Iterator[None]:
        deadline = time.monotonic() + self._wait_seconds
        handles = [
            os.open(folder / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            for number in range(self._slots)
        ]
        try:
            while not any(_take(handle) for handle in handles):
                # Polled, not awaited: a stopped process that holds a slot must not hang us.
                if time.monotonic() > deadline:
                    raise _busy()
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            for handle in handles:
                os.close(handle)


def _go_last() -> None:
    """The event loop of this process, and of others, go before this thread: a link takes a hundredth of what a login
    does. Elsewhere than on Linux threads have no priority of their own.
    """
    if sys.platform == "linux":
        # Added to what the service was started with: only root may ask for less.
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + _NICE, _LAST))


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _busy() -> Unavailable:
    return Unavailable(
        "Too many people are signing in at this moment. Try again in a few seconds.",
        code="busy",
        retry_after_seconds=3,
    )
