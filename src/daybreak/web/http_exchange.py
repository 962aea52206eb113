"""One request and its answer on the wire: uvicorn's, but that the head of an answer leaves with what follows it, in one
write, and that files go out by the kernel (the ASGI extension `http.response.zerocopysend`).
"""

from __future__ import annotations

import asyncio
import os
from typing import IO

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

EXTENSIONS: dict[str, dict[str, str]] = {"http.response.zerocopysend": {}}

_PIECE_BYTES = 8 * 1024 * 1024
# Copying so much costs less than another call of the kernel.
_TOGETHER_BYTES = 64 * 1024
# What may stand in a name: of RFC 9110's tokens what is in use, in lower case as ASGI has it. And what may in no value.
_IN_NAMES = b"abcdefghijklmnopqrstuvwxyz0123456789-"
_IN_NO_VALUE = bytes(set(range(0x20)) - {0x09} | {0x7F})
_WITHOUT_CONTENT = frozenset({204, 304})


class Exchange(RequestResponseCycle):
    """What the application sends, as octets on the connection."""

    _head = b""

    async def send(self, message: Message) -> None:  # type: ignore[override]  # the same shapes, named otherwise
        """Takes one message of the application. Raises RuntimeError when it is none of an answer, or not its turn."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if self.response_complete or self.response_started is (kind == "http.response.start"):
            raise RuntimeError(f"The message {kind} is out of turn")
        if kind == "http.response.start":
            self._begin(message["status"], message["headers"])
        elif kind == "http.response.body":
            self._go_on(message.get("body", b""), message.get("more_body", False))
        elif kind == "http.response.zerocopysend":
            self._write(b"")
            await self._send_file(message["file"], message["offset"], message["count"])
        else:
            raise RuntimeError(f"The message {kind} is none of an answer")

    def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Makes the head, which waits for what follows. A header that would be read as two is an error."""
        given = dict(headers)
        if b"".join(given).translate(None, _IN_NAMES):
            raise RuntimeError("Invalid HTTP header name.")
        values = b"".join([value for _, value in headers])
        if len(values.translate(None, _IN_NO_VALUE)) != len(values):
            raise RuntimeError("Invalid HTTP header value.")
        lines = [STATUS_LINE[status], *[b"%b: %b\r\n" % header for header in (*self.default_headers, *headers)]]
        length = given.get(b"content-length")
        if length is not None:
            self.expected_content_length = int(length)
        elif self.scope["method"] != "HEAD" and status not in _WITHOUT_CONTENT:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if b"close" in given.get(b"connection", b"").lower():
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)
        self.response_started = True
        self.waiting_for_100_continue = False

    def _go_on(self, body: bytes, more_body: bool) -> None:  # noqa: FBT001 - as the message has it
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            body = b""
        elif self.chunked_encoding:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more_body:
                body += b"0\r\n\r\n"
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("Response content longer than Content-Length")
        self._write(body)
        if not more_body:
            if self.expected_content_length:
                raise RuntimeError("Response content shorter than Content-Length")
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _write(self, octets: bytes) -> None:
        """Writes the head, when it still waits, and octets after it."""
        if self._head:
            head, self._head = self._head, b""
            if len(octets) <= _TOGETHER_BYTES:
                octets = head + octets
            else:
                self.transport.write(head)
        if octets:
            self.transport.write(octets)

    async def _send_file(self, file: IO[bytes], offset: int, count: int) -> None:
        """Sends `count` octets of an open file from `offset`, without copying them."""
        end = offset + count
        if count > self.expected_content_length:
            raise RuntimeError("A file is longer than the content was said to be")
        loop = asyncio.get_running_loop()
        while offset < end and not self.disconnected:
            piece = min(_PIECE_BYTES, end - offset)
            # The kernel reads ahead meanwhile: what is not in memory would hold up everybody.
            os.posix_fadvise(file.fileno(), offset + piece, _PIECE_BYTES, os.POSIX_FADV_WILLNEED)
            try:
                sent = await loop.sendfile(self.transport, file, offset, piece)
            except (ConnectionError, RuntimeError, TimeoutError):
                self.disconnected = True
                self.transport.abort()
                return
            if sent != piece:
                raise OSError("A file is shorter than it was")
            offset += piece
            self.expected_content_length -= piece
            # Others are served between two pieces.
            await asyncio.sleep(0)
