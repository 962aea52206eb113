"""A span for every request."""

from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.telemetry import Tracing
from daybreak.web.middleware.metrics import METHODS, path_pattern
from daybreak.web.request_state import client_of, request_id_of, response_head_of


class TracingMiddleware:
    """Trace each request under the path pattern of its route. A trace continues that of a trusted proxy."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app, self._tracing = app, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = [value for name, value in scope["headers"] if name == b"traceparent"]
        traceparent = sent[0].decode("latin-1") if len(sent) == 1 and client_of(scope).proxied else None
        method = scope["method"] if scope["method"] in METHODS else "other"
        span = self._tracing.begin_request(method, request_id_of(scope), traceparent)
        try:
            await self._app(scope, receive, send)
        finally:
            self._tracing.end_request(span, method, path_pattern(scope), response_head_of(scope).status)
