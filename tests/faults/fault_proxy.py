"""A proxy between a client and a real server that breaks connections to order."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

_PIECE = 65536


@dataclass(frozen=True)
class Fault:
    """What happens to one connection. `amount` is a status, or the bytes that pass before it happens.

    `status`: the request is answered with that status, the server never sees it. `accepted`: with 200 and an error as
    its body. `reset`: the connection breaks after so many bytes of the request, `cut` after so many of the answer.
    `silent`: nobody answers. `damage`: one byte of the answer is another.
    """

    kind: Literal["status", "accepted", "reset", "cut", "silent", "damage"]
    amount: int = 0
    only: bytes = b""


@dataclass
class FaultProxy:
    """Faults are used up in order, one by each connection whose first bytes hold `only`; then everything passes."""

    target: tuple[str, int]
    faults: list[Fault] = field(default_factory=list)
    forever: Fault | None = None
    struck: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(client)
            thread = threading.Thread(target=self._connection, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        self._closed.set()
        # shutdown wakes the thread that accepts, close alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)

    def _connection(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            # One request a connection: what is struck is then the request that the test means.
            request = self._request(client)
            if not request:
                return
            fault = self._next_fault(request)
            if fault is None:
                self._pass(client, request, None)
            elif fault.kind == "silent":
                self._closed.wait(600)
            elif fault.kind == "status":
                self._answer(client, f"{fault.amount} Refused", b"")
            elif fault.kind == "accepted":
                self._answer(client, "200 OK", b"<Error><Code>InternalError</Code><Message>no</Message></Error>")
            elif fault.kind == "reset":
                with socket.create_connection(self.target) as server:
                    server.sendall(request[: fault.amount])
                self._break(client)
            else:
                self._pass(client, request, fault)
        with self._lock:
            self._open.discard(client)

    def _next_fault(self, request: bytes) -> Fault | None:
        with self._lock:
            if self.forever is not None and self.forever.only in request[:2000]:
                self.struck += 1
                return self.forever
            if self.faults and self.faults[0].only in request[:2000]:
                self.struck += 1
                return self.faults.pop(0)
        return None

    def _request(self, client: socket.socket) -> bytes:
        """One whole request, marked to be the connection's last one."""
        gathered = b""
        while b"\r\n\r\n" not in gathered:
            piece = client.recv(_PIECE)
            if not piece:
                return b""
            gathered += piece
        head, _, body = gathered.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(body) < length:
            piece = client.recv(_PIECE)
            if not piece:
                return b""
            body += piece
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body

    def _pass(self, client: socket.socket, request: bytes, fault: Fault | None) -> None:
        with socket.create_connection(self.target) as server:
            server.sendall(request)
            passed = 0
            while piece := server.recv(_PIECE):
                if fault is not None and passed <= fault.amount < passed + len(piece):
                    place = fault.amount - passed
                    if fault.kind == "cut":
                        client.sendall(piece[:place])
                        self._break(client)
                        return
                    piece = piece[:place] + bytes([piece[place] ^ 1]) + piece[place + 1 :]
                client.sendall(piece)
                passed += len(piece)

    def _answer(self, client: socket.socket, status: str, body: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode() + body)

    def _break(self, client: socket.socket) -> None:
        """Closes with a reset instead of an end."""
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()


@contextlib.contextmanager
def fault_proxy(host: str, port: int) -> Iterator[FaultProxy]:
    proxy = FaultProxy((host, port))
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(30)
