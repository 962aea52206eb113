"""Limits of request bodies: size, time, and the end of the connection if a body is not read."""

import asyncio
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.domain.errors import RequestError


class BodyLimitsMiddleware:
    """Limit the size of request bodies, and the time they take to arrive.

    The error is raised where the endpoint reads the body. Its exception handler sends the response.

    A response that is sent before the whole body was read has `Connection: close`. The server closes such a connection,
    and a client that does not know it would send its next request there (RFC 9112 §9.6).
    """

    def __init__(
        self, app: ASGIApp, *, limit_bytes: int, deadline_seconds: float, larger_limits: Mapping[str, int] | None = None
    ) -> None:
        """`larger_limits` are limits in bytes by the start of the path."""
        self._app = app
        self._limit_bytes = limit_bytes
        self._deadline_seconds = deadline_seconds
        self._larger_limits = larger_limits or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limits = (limit for start, limit in self._larger_limits.items() if scope["path"].startswith(start))
        body = _LimitedBody(scope, receive, next(limits, self._limit_bytes), self._deadline_seconds)
        await self._app(scope, body.receive, body.closing(send))


class _LimitedBody:
    def __init__(self, scope: Scope, receive: Receive, limit_bytes: int, deadline_seconds: float) -> None:
        self._receive = receive
        self._limit_bytes = limit_bytes
        self._deadline_seconds = deadline_seconds
        self._deadline: float | None = None
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        self._declared = int(length) if length.isdigit() else 0
        self._received = 0
        self._complete = False
        self._has_body = self._declared > 0 or any(name == b"transfer-encoding" for name, _ in scope["headers"])

    async def receive(self) -> Message:
        """Receive the next message.

        Raises:
            RequestError: `body_too_large` or `request_timeout`.
        """
        if self._complete:
            # From here on the endpoint waits for the client to disconnect.
            return await self._receive()
        if self._declared > self._limit_bytes:
            raise self._too_large()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._deadline_seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise RequestError("The request body did not arrive in time.", code="request_timeout") from None
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._limit_bytes:
                raise self._too_large()
            self._complete = not message.get("more_body", False)
        return message

    def closing(self, send: Send) -> Send:
        """Return a `send` that announces the end of the connection when the body was not read."""

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._has_body and not self._complete:
                headers = [header for header in message["headers"] if header[0] != b"connection"]
                message["headers"] = [*headers, (b"connection", b"close")]
            await send(message)

        return send_closing

    def _too_large(self) -> RequestError:
        return RequestError(f"The request body is larger than {self._limit_bytes} bytes.", code="body_too_large")
