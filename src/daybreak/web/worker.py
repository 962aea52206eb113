"""One web worker: the application on Granian, on a socket that the supervisor gave it.

Signals are taken here and not by Granian, which hangs when a second one comes before it acted on
the first.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from granian._granian import SocketHolder
from granian.http import HTTP1Settings
from granian.server.embed import Server
from starlette.types import ASGIApp

from daybreak.web.listeners import BACKLOG, connections_allowed

HEADER_SECONDS = 20
_MAX_HEADER_BYTES = 64 * 1024
_BEAT_SECONDS = 1.0


def run_app(app: ASGIApp, listener: socket.socket, *, beat: Callable[[], None]) -> None:
    """Serves until SIGTERM or SIGINT; then takes no more connections and returns when the last
    transfer is over (the supervisor ends it before, when that takes too long).

    `beat` is called when the worker is ready and every second from then on.
    """
    logging.getLogger("_granian").setLevel(logging.WARNING)
    logging.getLogger("_granian.asgi.transport").setLevel(logging.WARNING)
    gc.collect()
    # What is loaded now lives as long as the worker: leave it out of every collection.
    gc.freeze()
    asyncio.run(_serve(app, listener, beat))


async def _serve(app: ASGIApp, listener: socket.socket, beat: Callable[[], None]) -> None:
    server = _ListenerServer(app, listener)
    loop = asyncio.get_running_loop()
    stopping = False

    def stop() -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            server.stop()  # type: ignore[no-untyped-call]

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    beating = loop.create_task(_beat(beat))
    try:
        await server.serve()
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _beat(beat: Callable[[], None]) -> None:
    while True:
        beat()
        await asyncio.sleep(_BEAT_SECONDS)


class _ListenerServer(Server):
    """Granian within our event loop, on a socket that is open already."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        super().__init__(
            target=app,
            interface="asgi",  # type: ignore[arg-type]  # an enumeration of strings
            http="1",  # type: ignore[arg-type]
            websockets=False,
            backlog=BACKLOG,
            backpressure=connections_allowed(),
            http1_settings=HTTP1Settings(header_read_timeout=HEADER_SECONDS * 1000, max_buffer_size=_MAX_HEADER_BYTES),
            log_enabled=False,
        )
        self._listener = listener

    def _init_shared_socket(self) -> None:
        self._ssp: Any = None
        self._shd: Any = SocketHolder(self._listener.fileno(), False, BACKLOG)  # type: ignore[call-arg]
