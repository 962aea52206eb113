"""One HTTP/1.1 connection: uvicorn's, whose parser takes nothing that two readers could read in two ways.

What is added: a head has a size and a time to arrive in, what is left of a body has a time, trailers are nobody's
headers, and refusals are problems. How an answer goes out is in `http_exchange`.
"""

from __future__ import annotations

import asyncio
import secrets
from asyncio.events import TimerHandle
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import httptools
import msgspec
import structlog
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from daybreak.domain.errors import RequestError
from daybreak.web.http_exchange import EXTENSIONS, Exchange
from daybreak.web.problems import PROBLEM_TYPE, problem_of

HEAD_SECONDS = 20.0
_LARGEST_HEAD_BYTES = 64 * 1024
_MOST_HEADERS = 100

_log = structlog.get_logger("daybreak.web")


class Connection(HttpToolsProtocol):
    """What the event loop tells of one connection, as requests to the application."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], on_end: Callable[[], None]
    ) -> None:
        """`on_end` is called when the connection is no more."""
        super().__init__(config, server_state, app_state)
        self._on_end = on_end
        self._deadline: TimerHandle | None = None
        self._idle_since: float | None = None
        self._head_open = False
        self._body_open = False
        self._head_bytes = self._raw_bytes = 0
        self._too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._must_go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
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
            self._parse(data)
        if self._too_large:
            self._refuse(RequestError("The head of the request is too large.", code="head_too_large"))
        elif self._head_open or self._is_idle:
            self._must_go_on()

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        rest: bytes | memoryview = data
        try:
            while True:
                try:
                    self.parser.feed_data(rest)
                    return
                except httptools.HttpParserUpgrade as offer:
                    rest = memoryview(rest)[offer.args[0] :]
                    self._ask_again_without_offer()
        except httptools.HttpParserError:
            self.send_400_response("")

    def _ask_again_without_offer(self) -> None:
        """No other protocol is spoken here (RFC 9110 §7.8). The parser takes the body behind such an offer for that
        protocol, and then for the next request: another one gets the head as it would be without.
        """
        version = self.parser.get_http_version().encode("ascii")
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn sets up the first one.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join((*lines, b"", b"")))

    # What the parser tells.

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._head_open = self._body_open = True
        self._head_bytes = self._raw_bytes = 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        self._head_bytes += len(url)
        self._too_large = self._head_bytes > _LARGEST_HEAD_BYTES

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self.headers
        # After the head there are trailers: a proxy before us has not looked at them as it looks at headers.
        if self._head_open:
            name = name.lower()
            headers.append((name, value))
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > _LARGEST_HEAD_BYTES or len(headers) > _MOST_HEADERS:
            self._too_large = True
            raise ValueError("too large")

    def on_headers_complete(self) -> None:
        """The head is whole: the application gets it, once those before it are answered."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("no tunnel")
            return
        self._head_open = False
        self._in_time()
        version, keeps = self.parser.get_http_version(), self.parser.should_keep_alive()
        target = httptools.parse_url(self.url)
        path = target.path.decode("ascii")
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "method": self.parser.get_method().decode("ascii"),
            "scheme": self.scheme or "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": target.path,
            "query_string": target.query or b"",
            "root_path": "",
            "headers": self.headers,
            "client": self.client,
            "server": self.server,
            "state": self.app_state.copy(),
            "extensions": EXTENSIONS,  # type: ignore[typeddict-item]
        }
        under_way = self._under_way
        self.cycle = Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and keeps,
            on_response=self.on_response_complete,
        )
        if under_way is None:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._body_open = False
        self._in_time()
        super().on_message_complete()

    # What becomes of a request.

    def on_response_complete(self) -> None:
        """The next request has its turn, or may take its time to come."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()
            if self.timeout_keep_alive_task is None:
                self._look_again_in(self.timeout_keep_alive)
        # The rest of the body still has to come: cutting now might cut the answer off.
        if self._body_open:
            self._must_go_on()

    def timeout_keep_alive_handler(self) -> None:
        """One look serves many requests: setting a clock for each and stopping it again costs more than all looks."""
        self.timeout_keep_alive_task = None
        if self._idle_since is None or self.transport.is_closing():
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._look_again_in(left)
        else:
            self.transport.close()

    def _look_again_in(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

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
            b"x-request-id: %s\r\n" % problem.request_id.encode(),
            b"content-length: %d\r\n\r\n" % len(body),
        ]
        self.transport.write(b"".join((*lines, body)))
        self.transport.close()
        # No layer behind this one has seen it; the access log has a line for every answer all the same.
        _log.info(
            "request",
            request_id=problem.request_id,
            method="",
            path="",
            status=problem.status,
            length=len(body),
            code=problem.code,
            address=self.client[0] if self.client else "",
        )

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is asked and nobody looks after the time: empty lines between requests keep nobody alive."""
        return self._under_way is None and not self._body_open and self._idle_since is None

    @property
    def _under_way(self) -> Exchange | None:
        """The request that is being answered."""
        cycle: Exchange | None = self.cycle  # type: ignore[assignment]  # it is made above, nowhere else
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
