"""A receiver of webhooks: an HTTP server that records requests and answers as a test scripts it."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

from tests.parts.waiting import wait_until


@dataclass(frozen=True)
class Received:
    """One request. Header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What the receiver does with a request.

    `reset` closes the connection without a response; `hang` keeps it open until the client closes it.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"ok"
    reset: bool = False
    hang: bool = False

    def octets(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} Scripted", f"Content-Length: {len(self.body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


Script = Callable[[Received, int], Answer]


def accept(_request: Received, _number: int) -> Answer:
    """Accept every request."""
    return Answer()


@dataclass
class Receiver:
    """A running receiver. `script` receives each request and its number for that path, from 1."""

    script: Script = accept
    host: str = "127.0.0.1"
    certificate: str | None = None
    received: list[Received] = field(default_factory=list)
    sent_octets: int = 0
    port: int = 0
    _counts: dict[str, int] = field(default_factory=dict)
    _hanging: set[asyncio.StreamWriter] = field(default_factory=set)
    _transports: list[asyncio.WriteTransport] = field(default_factory=list)

    def url(self, path: str = "/hook", host: str | None = None) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{host or self.host}:{self.port}{path}"

    def wait_for(self, count: int, path: str | None = None) -> list[Received]:
        """Wait for that many requests and return them."""
        wait_until(lambda: len(self.of(path)) >= count, 120)
        return self.of(path)

    def of(self, path: str | None) -> list[Received]:
        return [each for each in list(self.received) if path is None or each.path == path]

    @property
    def hanging(self) -> int:
        """Number of requests that are kept waiting."""
        return len(self._hanging)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._transports.append(writer.transport)
        with (
            closing(writer),
            suppress(asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError, ssl.SSLError),
        ):
            request = await _read_request(reader)
            self._counts[request.path] = number = self._counts.get(request.path, 0) + 1
            self.received.append(request)
            answer = self.script(request, number)
            if answer.hang:
                self._hanging.add(writer)
                await reader.read()
                self._hanging.discard(writer)
            elif answer.reset:
                writer.transport.abort()
            else:
                await self._answer(writer, answer)

    async def _answer(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        octets = answer.octets()
        for start in range(0, len(octets), 65_536):
            writer.write(octets[start : start + 65_536])
            await writer.drain()
            self.sent_octets += len(octets[start : start + 65_536])

    async def start(self) -> asyncio.Server:
        context = None
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
        server = await asyncio.start_server(self._serve, self.host, self.port, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        return server

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Serve until the block ends."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="receiver")
        thread.start()
        try:
            server = asyncio.run_coroutine_threadsafe(self.start(), loop).result()
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self._end(server), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _end(self, server: asyncio.Server) -> None:
        # A server that is closed before the handler of a new connection begins would leave its socket open.
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        await _iterations(3)
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for transport in self._transports:
            # A closed TLS connection is open until the client has answered.
            transport.abort()
        await _iterations(3)


async def _iterations(count: int) -> None:
    """Let the event loop run its callbacks that many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Received(first.split(" ")[1], headers, await reader.readexactly(int(headers.get("content-length", "0"))))
