"""TCP proxy that stops forwarding while its connections stay open, as a stopped process or a full disk does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

_BUFFER_BYTES = 65536


@dataclass
class SilentProxy:
    """Proxy that falls silent after `silent_after` parts of data from clients. `parts` counts them.

    Silent connections stay open. New ones are accepted, and are forwarded only if `only_open` is set.
    """

    target: tuple[str, int]
    silent_after: float = inf
    only_open: bool = False
    parts: int = 0
    _sockets: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """Return the port of the proxy."""
        return int(self._listener.getsockname()[1])

    @property
    def is_silent(self) -> bool:
        """Return whether the open connections are silent."""
        return self.parts >= self.silent_after

    def serve(self) -> None:
        """Accept connections until `close`."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            is_heard = self.only_open or not self.is_silent
            if is_heard:
                server = socket.create_connection(self.target)
                self._sockets.append(server)
                was_silent = self.is_silent
                for sender, receiver in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._forward, args=(sender, receiver, sender is client, was_silent), daemon=True
                    ).start()

    def _forward(self, sender: socket.socket, receiver: socket.socket, is_client: bool, is_exempt: bool) -> None:
        with contextlib.suppress(OSError):
            while part := sender.recv(_BUFFER_BYTES):
                with self._lock:
                    self.parts += is_client
                    if self.is_silent and not is_exempt:
                        return
                receiver.sendall(part)
            receiver.shutdown(socket.SHUT_WR)

    def recover(self) -> None:
        """Forward new connections again. The silent ones are closed, as by a restart."""
        self.silent_after = inf
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop accepting, and close all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.recover()
        for connection in self._sockets:
            connection.close()


@contextlib.contextmanager
def silent_proxy(host: str, port: int) -> Iterator[SilentProxy]:
    """Run a proxy before a server."""
    proxy = SilentProxy((host, port))
    acceptor = threading.Thread(target=proxy.serve, daemon=True)
    acceptor.start()
    try:
        yield proxy
    finally:
        proxy.close()
        acceptor.join()
