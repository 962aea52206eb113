"""One HTTP/1.1 connection: uvicorn's, whose parser takes nothing that two readers could read in two ways.

What is added: a head has a size and a time to arrive in, what is left of a body has a time, trailers are nobody's
headers, refusals are problems, and files go out by the kernel (the ASGI extension `http.response.zerocopysend`).
"""

from __future__ import annotations

import asyncio
import os
import secrets
from asyncio.events import TimerHandle
from collections.abc import Awaitable, Callable
from typing import IO, Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from daybreak.domain.errors import RequestError
from daybreak.web.problems import PROBLEM_TYPE, problem_of

HEAD_SECONDS = 20.0
_LARGEST_HEAD_BYTES = 64 * 1024
_MOST_HEADERS = 100
_PIECE_BYTES = 8 * 1024 * 1024
_EXTENSIONS: dict[str, dict[str, str]] = {"http.response.zerocopysend": {}}


class Connection(HttpToolsProtocol):
    """What the event loop tells of one connection, as requests to the application."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], on_end: Callable[[], None]
    ) -> None:
        """`on_end` is called when the connection is no more."""
        super().__init__(config, server_state, app_state)
        self._on_end = on_end
        self._deadline: TimerHandle | None = None
        self._head_open = False
        self._body_open = False
        self._head_bytes = self._raw_bytes = 0
        self._too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._must_go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)
        self._on_end()

    def data_received(self, data: bytes) -> None:
        """Takes what came. A request that is begun and not whole has until the deadline."""
        if self.transport.is_closing():
            return
        if self._head_open:
            # What has no end yet the parser keeps to itself.
            self._raw_bytes += len(data)
            self._too_large = self._raw_bytes > _LARGEST_HEAD_BYTES
        if not self._too_large:
            super().data_received(data)
        if self._too_large:
            self._refuse(RequestError("The head of the request is too large.", code="head_too_large"))
        elif self._head_open or self._is_idle:
            self._must_go_on()

    # What the parser tells.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = _EXTENSIONS  # type: ignore[typeddict-item]
        self._head_open = self._body_open = True
        self._head_bytes = self._raw_bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        # After the head there are trailers: a proxy before us has not looked at them as it looks at headers.
        if self._head_open:
            super().on_header(name, value)
            if len(self.headers) > _MOST_HEADERS:
                self._too_large = True
        if self._too_large:
            raise ValueError("too large")

    def on_headers_complete(self) -> None:
        self._head_open = False
        self._in_time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._body_open = False
        self._in_time()
        super().on_message_complete()

    # What becomes of a request.

    def on_response_complete(self) -> None:
        """After an answer the rest of the body still has to come: cutting now might cut the answer off."""
        super().on_response_complete()
        if self._body_open:
            self._must_go_on()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """What the parser cannot read, or was told not to."""
        if not self._too_large:
            self._refuse(RequestError("This is no HTTP request."))

    def _refuse(self, error: RequestError) -> None:
        """The last words on a connection; none when an answer is under way."""
        under_way = self._under_way
        if under_way is not None:
            # Nobody waits for what the application would still say.
            under_way.disconnected = True
            under_way.message_event.set()
            if under_way.response_started:
                self.transport.abort()
                return
        problem = problem_of(error, request_id=secrets.token_hex(12), base_url="")
        body = msgspec.json.encode(problem)
        lines = [
            STATUS_LINE[problem.status],
            *(b"%s: %s\r\n" % header for header in self.server_state.default_headers),
            b"server: daybreak\r\ncontent-type: %s\r\n" % PROBLEM_TYPE.encode(),
            b"cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n",
            b"content-length: %d\r\n\r\n" % len(body),
        ]
        self.transport.write(b"".join((*lines, body)))
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            def passed(message: Message) -> Awaitable[None]:
                if message["type"] == "http.response.zerocopysend":
                    return _send_file(cycle, message)
                return send(message)

            await app(scope, receive, passed)

        super()._start_asgi_task(cycle, answer)  # type: ignore[arg-type]  # the same shapes, named otherwise

    def _count(self, more: int) -> None:
        self._head_bytes += more
        self._too_large = self._too_large or self._head_bytes > _LARGEST_HEAD_BYTES

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is asked and nobody looks after the time: empty lines between requests keep nobody alive."""
        return self._under_way is None and not self._body_open and self.timeout_keep_alive_task is None

    @property
    def _under_way(self) -> RequestResponseCycle | None:
        """The request that is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    def _must_go_on(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self._head_open and not self.transport.is_closing():
            self._refuse(RequestError("The request did not arrive in time.", code="request_timeout"))
        else:
            self.transport.close()


async def _send_file(cycle: RequestResponseCycle, message: Message) -> None:
    """Sends `count` octets of the open file `file` from `offset`, without copying them."""
    file: IO[bytes] = message["file"]
    offset, count = message["offset"], message["count"]
    end = offset + count
    if count > cycle.expected_content_length:
        raise RuntimeError("A file is longer than the content was said to be")
    loop = asyncio.get_running_loop()
    while offset < end and not cycle.disconnected:
        piece = min(_PIECE_BYTES, end - offset)
        # The kernel reads ahead meanwhile: what is not in memory would hold up everybody.
        os.posix_fadvise(file.fileno(), offset + piece, _PIECE_BYTES, os.POSIX_FADV_WILLNEED)
        try:
            sent = await loop.sendfile(cycle.transport, file, offset, piece)
        except (ConnectionError, RuntimeError, TimeoutError):
            cycle.disconnected = True
            cycle.transport.abort()
            return
        if sent != piece:
            raise OSError("A file is shorter than it was")
        offset += piece
        cycle.expected_content_length -= piece
        # Others are served between two pieces.
        await asyncio.sleep(0)
