"""A request id for every request, in its state and in the response header X-Request-Id."""

from __future__ import annotations

import os
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.credentials.redaction import contains_secret
from daybreak.web.request_state import client_of, state_of

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")


class RequestIdMiddleware:
    """Assign a random id, or keep the id that a trusted proxy sent. An id that contains a secret is replaced."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = _request_id(scope)
        state_of(scope)["request_id"] = request_id
        header = (b"x-request-id", request_id.encode("ascii"))

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], header]
            await send(message)

        await self._app(scope, receive, send_with_id)


def _request_id(scope: Scope) -> str:
    if client_of(scope).proxied:
        sent: list[bytes] = [value for name, value in scope["headers"] if name == b"x-request-id"]
        if sent and _REQUEST_ID.fullmatch(sent[-1]):
            request_id = sent[-1].decode("ascii")
            if not contains_secret(request_id):
                return request_id
    return os.urandom(12).hex()
