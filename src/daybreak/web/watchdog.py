"""End a worker that hangs or is stopped, or whose main process has ended. Also the heartbeat of this node."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from multiprocessing import SimpleQueue
from typing import Any

import structlog

from daybreak.domain.errors import Unavailable
from daybreak.state.nodes import Node
from daybreak.state.stores import State

_HANG_SECONDS = 60.0
_STOPPED_SECONDS = 30
_INTERVAL_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
_log = structlog.get_logger("daybreak.web")


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine while the context is open."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def watchdog(main_pid: int, hang_seconds: float = _HANG_SECONDS) -> AsyncIterator[None]:
    """Watch this worker while the context is open.

    A worker whose event loop makes no progress for `hang_seconds` prints the stack of every thread to standard error
    and exits; the server starts another one. A worker whose main process was killed stops as on SIGTERM.
    """
    try:
        async with running(_watch(main_pid, hang_seconds)):
            yield
    finally:
        faulthandler.cancel_dump_traceback_later()


async def _watch(main_pid: int, hang_seconds: float) -> None:
    while True:
        faulthandler.dump_traceback_later(hang_seconds, exit=True)
        if os.getppid() != main_pid:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(_INTERVAL_SECONDS)


def kill_stopped_workers(started: SimpleQueue[int], stopped_seconds: int = _STOPPED_SECONDS) -> None:
    """Kill each worker that is stopped (SIGSTOP, a debugger's leftover) for `stopped_seconds`: it accepts connections,
    and answers none. The server starts another one. For a thread of the main process; never returns.

    `started` contains the process ids of workers. Checks are counted, because time also passes while the main process
    itself is stopped.
    """
    checks: dict[int, int] = {}
    # time.sleep fails under libfaketime.
    pause = threading.Event()
    while not pause.wait(_INTERVAL_SECONDS):
        while not started.empty():
            checks[started.get()] = 0
        for pid in list(checks):
            try:
                is_stopped = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
            except ChildProcessError:
                del checks[pid]
                continue
            checks[pid] = checks[pid] + 1 if is_stopped else 0
            if checks[pid] * _INTERVAL_SECONDS >= stopped_seconds:
                _log.error("worker_stopped", pid=pid, detail="The worker was stopped. It is killed and replaced.")
                os.kill(pid, signal.SIGKILL)


async def heartbeat(state: State, node: Callable[[datetime], Node], clock: Callable[[], datetime]) -> None:
    """Update the node's row until canceled. All workers of a node update the same row."""
    while True:
        with suppress(Unavailable):
            await state.awrite(lambda stores: stores.nodes.beat(node, clock))
        await asyncio.sleep(_HEARTBEAT_SECONDS)
