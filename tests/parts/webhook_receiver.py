"""A receiver of webhooks: a scripted service that counts the requests of each path, and can keep them waiting."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.parts.scripted_service import DISCONNECT, Reply, Request, scripted_service
from tests.parts.waiting import wait_until

_PIECE_BYTES = 65_536


@dataclass(frozen=True)
class Answer:
    """What the receiver does with a request.

    `reset` closes the connection without a response; `hang` keeps it open until the receiver ends.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"ok"
    reset: bool = False
    hang: bool = False


Script = Callable[[Request, int], Answer]


def accept(_request: Request, _number: int) -> Answer:
    """Accept every request."""
    return Answer()


@dataclass
class Receiver:
    """A running receiver. `script` receives each request and its number for that path, from 1.

    `hanging` is the number of requests that were kept waiting.
    """

    script: Script = accept
    host: str = "127.0.0.1"
    certificate: Path | None = None
    received: list[Request] = field(default_factory=list)
    sent_octets: int = 0
    hanging: int = 0
    port: int = 0
    _counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "/hook", host: str | None = None) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{host or self.host}:{self.port}{path}"

    def wait_for(self, count: int, path: str | None = None) -> list[Request]:
        """Wait for that many requests and return them."""
        wait_until(lambda: len(self.of(path)) >= count, 120)
        return self.of(path)

    def of(self, path: str | None) -> list[Request]:
        return [each for each in list(self.received) if path is None or each.path == path]

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Serve until the block ends."""
        with scripted_service(self.certificate, self.host, self.port) as service:
            self.received, self.port = service.requests, urlsplit(service.url).port or 0
            service.script = self._reply
            try:
                yield self
            finally:
                self._ended.set()

    def _reply(self, request: Request) -> Reply:
        with self._lock:
            self._counts[request.path] += 1
            number = self._counts[request.path]
        answer = self.script(request, number)
        if answer.hang:
            with self._lock:
                self.hanging += 1
            self._ended.wait()
        if answer.hang or answer.reset:
            return Reply(DISCONNECT)
        headers = {"Content-Length": str(len(answer.body)), **dict(answer.headers)}
        return Reply(answer.status, self._pieces(answer.body), headers)

    def _pieces(self, body: bytes) -> Iterator[bytes]:
        """Yield the body in pieces, and count those that were sent."""
        for start in range(0, len(body), _PIECE_BYTES):
            piece = body[start : start + _PIECE_BYTES]
            yield piece
            self.sent_octets += len(piece)
