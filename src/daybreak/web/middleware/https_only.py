"""Refusal of plain HTTP."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.domain.errors import Forbidden
from daybreak.web.errors import error_response
from daybreak.web.request_state import client_of, record_refusal

# Used by health checks on the same machine.
_PLAIN_HTTP_PATHS = frozenset({"/healthz", "/readyz"})


class HttpsOnlyMiddleware:
    """Refuse requests over plain HTTP, except health checks from this machine.

    A redirect would hide that the client has already sent its credential in clear text.
    """

    def __init__(self, app: ASGIApp, base_url: str) -> None:
        self._app = app
        self._base_url = base_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = client_of(scope)
        if client.secure or (client.loopback and scope["path"] in _PLAIN_HTTP_PATHS):
            await self._app(scope, receive, send)
            return
        error = Forbidden(
            "This service accepts HTTPS only. Change any credential that you sent over plain HTTP: others may have "
            "read it.",
            code="https_required",
        )
        record_refusal(scope, error.code)
        response = error_response(scope, error, base_url=self._base_url)
        await response(scope, receive, send)
