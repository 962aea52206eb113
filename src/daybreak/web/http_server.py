"""The HTTP server of one worker: uvicorn's, on a socket that is open already.

It takes no more connections than the process has descriptors for; the others wait in the kernel. Signals are the
worker's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Iterator

from starlette.types import ASGIApp
from uvicorn import Config, Server

from daybreak.web.http_connection import HEAD_SECONDS, Connection
from daybreak.web.listeners import connections_allowed

STALLED_SECONDS = 120.0
_RETRY_SECONDS = 0.1


class HttpServer(Server):
    """Serves one application on one listening socket. `serve` returns once `stop` was called and the last answer is
    sent.
    """

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        super().__init__(
            Config(
                app,
                http=Connection,
                ws="none",
                interface="asgi3",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=int(HEAD_SECONDS),
            )
        )
        self._listener = listener

    def stop(self) -> None:
        """Takes no more connections, and lets what is under way end."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(1)
        self.servers = [_Door(self, self._listener)]  # type: ignore[list-item]  # as much of one as is asked for
        self.started = True


class _Door:
    """Lets connections in while there is room for one more."""

    def __init__(self, server: HttpServer, listener: socket.socket) -> None:
        self._server = server
        self._listener = listener
        listener.setblocking(False)
        # Every connection has from its listener what is set here.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            # Who takes nothing for so long is gone: a slow reader takes something now and then.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(STALLED_SECONDS * 1000))
        self._room = asyncio.Semaphore(connections_allowed())
        self._coming: set[asyncio.Task[None]] = set()
        self._open = asyncio.create_task(self._let_in())

    def close(self) -> None:
        """Lets nobody in any more."""
        self._open.cancel()
        self._listener.close()

    async def wait_closed(self) -> None:
        """Returns once it is closed."""
        await asyncio.wait([self._open])

    async def _let_in(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError:
                # Gone before it was taken, or the machine is short of something.
                self._room.release()
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            task = loop.create_task(self._bring_in(connection))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _bring_in(self, connection: socket.socket) -> None:
        server = self._server

        def protocol() -> Connection:
            return Connection(server.config, server.server_state, server.lifespan.state, self._room.release)

        await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
