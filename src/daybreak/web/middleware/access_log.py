"""One log line per request."""

import re
import time

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.credentials.redaction import redact
from daybreak.web.request_state import ResponseHead, client_of, request_id_of, state_of, user_agent_of

# The server decodes a path once. A client may have encoded the question mark several times.
_QUERY = re.compile(r"\?|%(?:25)*3f", re.IGNORECASE)
_READ_CHARACTERS = 4000
_PATH_CHARACTERS = 500
_USER_AGENT_CHARACTERS = 200
_METHOD_CHARACTERS = 32
_log = structlog.get_logger("daybreak.web")


class AccessLogMiddleware:
    """Log each request when its response has ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # Binding a logger takes as long as writing a line.
        self._log = _log.bind()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        head = state_of(scope)["response_head"] = ResponseHead(send)
        try:
            await self._app(scope, receive, head.send)
        finally:
            state = state_of(scope)
            self._log.info(
                "request",
                request_id=request_id_of(scope),
                method=redact(scope["method"])[:_METHOD_CHARACTERS],
                path=logged_path(scope),
                status=head.status,
                length=head.length,
                milliseconds=int((time.perf_counter() - started) * 100_000 + 0.5) / 100,
                address=client_of(scope).address,
                user_agent=user_agent_of(scope)[:_USER_AGENT_CHARACTERS],
                subject=state.get("subject", ""),
                client_id=state.get("client_id", ""),
                # Why the request was refused, such as `not_your_account`, `invalid_token` or `cross_site`.
                code=state.get("code", ""),
            )


def logged_path(scope: Scope) -> str:
    """Return the path without secrets. The query string is never logged: it holds a link's signature."""
    path: str = scope["path"][:_READ_CHARACTERS]
    return redact(_QUERY.split(path, 1)[0])[:_PATH_CHARACTERS]
