"""Proxy that injects faults between a client and a real server."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

_BUFFER_BYTES = 65536


@dataclass(frozen=True)
class Fault:
    """Fault of one connection.

    `status`: response with the status `amount`; the server receives nothing.
    `accepted`: response 200 with an error as its body; the server receives nothing.
    `reset`: connection reset after `amount` bytes of the request.
    `cut`: connection reset after `amount` bytes of the response.
    `damage`: byte number `amount` of the response is changed.
    `no_response`: the connection stays open without a response.

    A fault applies only to requests that contain `only` in their first 2,000 bytes.
    """

    kind: Literal["status", "accepted", "reset", "cut", "no_response", "damage"]
    amount: int = 0
    only: bytes = b""


@dataclass
class FaultProxy:
    """Proxy that applies each fault to one connection, in order, then forwards everything.

    `forever` applies to every matching connection. `faulted` counts the faults applied.
    """

    target: tuple[str, int]
    faults: list[Fault] = field(default_factory=list)
    forever: Fault | None = None
    faulted: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    def start(self) -> None:
        self._acceptor.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
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
        # Only shutdown wakes the thread in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        # Afterwards no connection is added.
        self._acceptor.join(30)
        self._listener.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)

    def _connection(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            # One request per connection, so that a fault applies to a single request.
            request = self._request(client)
            if not request:
                return
            fault = self._next_fault(request)
            if fault is None:
                self._forward(client, request, None)
            elif fault.kind == "no_response":
                self._closed.wait(600)
            elif fault.kind == "status":
                self._respond(client, f"{fault.amount} Refused", b"")
            elif fault.kind == "accepted":
                self._respond(client, "200 OK", b"<Error><Code>InternalError</Code><Message>no</Message></Error>")
            elif fault.kind == "reset":
                with socket.create_connection(self.target) as server:
                    server.sendall(request[: fault.amount])
                self._reset(client)
            else:
                self._forward(client, request, fault)
        with self._lock:
            self._open.discard(client)

    def _next_fault(self, request: bytes) -> Fault | None:
        with self._lock:
            if self.forever is not None and self.forever.only in request[:2000]:
                self.faulted += 1
                return self.forever
            if self.faults and self.faults[0].only in request[:2000]:
                self.faulted += 1
                return self.faults.pop(0)
        return None

    def _request(self, client: socket.socket) -> bytes:
        """Return one whole request with `Connection: close`, or nothing if the client closes the connection."""
        gathered = b""
        while b"\r\n\r\n" not in gathered:
            piece = client.recv(_BUFFER_BYTES)
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
            piece = client.recv(_BUFFER_BYTES)
            if not piece:
                return b""
            body += piece
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body

    def _forward(self, client: socket.socket, request: bytes, fault: Fault | None) -> None:
        with socket.create_connection(self.target) as server:
            server.sendall(request)
            passed = 0
            while piece := server.recv(_BUFFER_BYTES):
                if fault is not None and passed <= fault.amount < passed + len(piece):
                    place = fault.amount - passed
                    if fault.kind == "cut":
                        client.sendall(piece[:place])
                        self._reset(client)
                        return
                    piece = piece[:place] + bytes([piece[place] ^ 1]) + piece[place + 1 :]
                client.sendall(piece)
                passed += len(piece)

    def _respond(self, client: socket.socket, status: str, body: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode() + body)

    def _reset(self, client: socket.socket) -> None:
        """Close with RST instead of FIN."""
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()


@contextlib.contextmanager
def fault_proxy(host: str, port: int) -> Iterator[FaultProxy]:
    proxy = FaultProxy((host, port))
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
