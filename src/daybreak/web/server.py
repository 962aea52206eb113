"""The HTTP server: Granian's worker processes, started through its public interface."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import SimpleQueue
from pathlib import Path
from typing import Any

import structlog
from granian import Granian
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from starlette.types import ASGIApp

from daybreak.web.listener import ListenAddress, accepts
from daybreak.web.watchdog import kill_stopped_workers

# Time for running transfers to finish after SIGTERM.
GRACE_SECONDS = 25
_BACKLOG = 1024
HEAD_TIMEOUT_MILLISECONDS = 20_000
HEAD_BUFFER_BYTES = 64 * 1024
# Fixed in hyper, the HTTP library of Granian.
MAX_HEADERS = 100
_MAX_DESCRIPTORS = 65_536
# Descriptors that a worker needs besides its connections: databases, log, event loop.
_OWN_DESCRIPTORS = 40
# A connection, and the file that it downloads.
_DESCRIPTORS_PER_CONNECTION = 2
MAX_CONNECTIONS = 8192
_READY_POLL_SECONDS = 0.05
_log = structlog.get_logger("daybreak.web")


def _do_nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class ServerHooks:
    """Functions that the main process calls: before workers start, when it may start threads, and after workers have
    ended.
    """

    on_start: Callable[[], None] = _do_nothing
    start_threads: Callable[[], None] = _do_nothing
    on_stop: Callable[[], None] = _do_nothing


def serve(address: ListenAddress, workers: int, load_app: Callable[[], ASGIApp], hooks: ServerHooks) -> None:
    """Serve until SIGTERM or SIGINT, then wait up to `GRACE_SECONDS` for running transfers.

    Granian replaces a worker that dies, and one that is stopped is killed. If one worker dies twice within 5.5 seconds,
    Granian exits with status 1, and the init system must restart the service.

    Args:
        address: Where to listen, as returned by `claim_address`.
        workers: Number of worker processes.
        load_app: Called in each worker to create its application. Picklable.
        hooks: Functions for the main process.

    Raises:
        SystemExit: workers died.
    """
    target: dict[str, Any] = (
        {"uds": address, "uds_permissions": 0o660}
        if isinstance(address, Path)
        else {"address": address.host, "port": address.port}
    )
    server = Granian(
        "daybreak",
        **target,
        interface=Interfaces.ASGI,
        workers=workers,
        loop=Loops.asyncio,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEAD_TIMEOUT_MILLISECONDS, max_buffer_size=HEAD_BUFFER_BYTES),
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_max_connections(),
        respawn_failed_workers=True,
        respawn_interval=1.0,
        workers_kill_timeout=GRACE_SECONDS,
        # A disconnected client is logged at level info, for each piece of the response.
        log_level=LogLevels.warning,
        log_dictconfig=_LOG_CONFIG,
    )

    started: SimpleQueue[int] = SimpleQueue()
    start_threads = partial(_start_threads, hooks, started)
    forks = multiprocessing.get_start_method() == "fork"
    server.on_startup(hooks.on_start)
    server.on_startup(partial(_after_forks, workers, start_threads) if forks else start_threads)
    server.on_shutdown(hooks.on_stop)
    server.serve(target_loader=partial(_load_in_worker, load_app, started), wrap_loader=False)
    _log.info("stopped")


def _start_threads(hooks: ServerHooks, started: SimpleQueue[int]) -> None:
    """Start the threads of the main process. Its workers report their process ids in `started`."""
    hooks.start_threads()
    # Only Linux and the BSDs report stopped processes in this way.
    if hasattr(os, "waitid"):
        threading.Thread(target=kill_stopped_workers, args=(started,), daemon=True).start()


def _after_forks(count: int, action: Callable[[], None]) -> None:
    """Call a function after this process has forked so many others.

    A lock of a library that a thread holds at the time of a fork stays locked in the forked process.
    """
    forks = itertools.count(1)

    def forked() -> None:
        if next(forks) == count:
            action()

    os.register_at_fork(after_in_parent=forked)


def _load_in_worker(load_app: Callable[[], ASGIApp], started: SimpleQueue[int]) -> ASGIApp:
    """Create the application in a worker, which SIGTERM ends until Granian handles it. Report its process id.

    A forked worker has inherited the handler of the main process. It would ignore the signal, and the main process
    would wait for it until `GRACE_SECONDS` have passed.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    started.put(os.getpid())
    return load_app()


async def announce(address: ListenAddress) -> None:
    """Log that this worker has started, and when the service accepts connections."""
    _log.info("started", process="worker", pid=os.getpid())
    # The server listens only after the start of the application.
    while not accepts(address):  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(_READY_POLL_SECONDS)
    _log.info("ready", process="worker", pid=os.getpid())


def _max_connections() -> int:
    """Raise the descriptor limit as far as allowed, and return how many connections a worker may hold.

    Further connections wait in the backlog. Without this limit, a worker that is out of
    descriptors would run in a busy loop.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return max(8, min((limit - _OWN_DESCRIPTORS) // _DESCRIPTORS_PER_CONNECTION, MAX_CONNECTIONS))


# Without handlers, so that its lines are like those of other libraries.
_LOG_CONFIG: dict[str, Any] = {
    "formatters": {},
    "handlers": {},
    "loggers": {"_granian": {"handlers": [], "propagate": True}},
}
