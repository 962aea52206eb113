"""Headers of every response: the id of the request, and security headers."""

import os
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.credentials.redaction import contains_secret
from daybreak.web.request_state import client_of, state_of

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
    (b"server", b"daybreak"),
]
_HSTS = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")


class RequestIdMiddleware:
    """Assign a random id, or keep the id that a trusted proxy sent. An id that contains a secret is replaced."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = state_of(scope)["request_id"] = _request_id(scope)
        header = (b"x-request-id", request_id.encode("ascii"))

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], header]
            await send(message)

        await self._app(scope, receive, send_with_id)


class SecurityHeadersMiddleware:
    """Add each security header that the endpoint has not set."""

    def __init__(self, app: ASGIApp, *, hsts: bool) -> None:
        self._app = app
        self._headers = [*_HEADERS, _HSTS] if hsts else _HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                added = [header for header in self._headers if header[0] not in present]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _request_id(scope: Scope) -> str:
    if client_of(scope).proxied:
        sent: list[bytes] = [value for name, value in scope["headers"] if name == b"x-request-id"]
        if sent and _REQUEST_ID.fullmatch(sent[-1]):
            request_id = sent[-1].decode("ascii")
            if not contains_secret(request_id):
                return request_id
    return os.urandom(12).hex()
