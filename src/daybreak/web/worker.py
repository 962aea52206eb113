"""One web worker: the application on the HTTP server, on a socket that the supervisor gave it."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from starlette.types import ASGIApp

from daybreak.web.http_server import HttpServer

_BEAT_SECONDS = 1.0


def run_app(app: ASGIApp, listener: socket.socket, *, beat: Callable[[], None]) -> None:
    """Serves until SIGTERM or SIGINT; then takes no more connections and returns when the last
    transfer is over (the supervisor ends it before, when that takes too long).

    `beat` is called when the worker is ready and every second from then on.
    """
    gc.collect()
    # What is loaded now lives as long as the worker: leave it out of every collection.
    gc.freeze()
    asyncio.run(_serve(app, listener, beat))


async def _serve(app: ASGIApp, listener: socket.socket, beat: Callable[[], None]) -> None:
    server = HttpServer(app, listener)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
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
