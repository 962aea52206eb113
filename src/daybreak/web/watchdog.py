"""End a worker that hangs, or whose main process has ended."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_HANG_SECONDS = 60.0
_INTERVAL_SECONDS = 1.0


@asynccontextmanager
async def watchdog(main_pid: int, hang_seconds: float = _HANG_SECONDS) -> AsyncIterator[None]:
    """Watch this worker while the context is open.

    A worker whose event loop makes no progress for `hang_seconds` prints the stack of every thread to standard error
    and exits; the server starts another one. A worker whose main process was killed stops as on SIGTERM.
    """
    task = asyncio.create_task(_watch(main_pid, hang_seconds))
    try:
        yield
    finally:
        task.cancel()
        faulthandler.cancel_dump_traceback_later()


async def _watch(main_pid: int, hang_seconds: float) -> None:
    while True:
        faulthandler.dump_traceback_later(hang_seconds, exit=True)
        if os.getppid() != main_pid:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(_INTERVAL_SECONDS)
