"""Request metrics."""

from __future__ import annotations

import time
from functools import lru_cache

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.web.metrics import OPEN_REQUESTS, REFUSALS, REQUEST_SECONDS, REQUESTS, RESPONSE_BYTES
from daybreak.web.middleware.access_log import ResponseHead
from daybreak.web.request_state import state_of

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
# What clients use, by the start of the route's path, and the name of what is left.
_DOORS = {
    "/download/v1/links/": "links",
    "/download/": "api",
    "/sharing/": "sharing",
    "/{bucket}/": "s3",
    "/iceberg/": "iceberg",
    "/dashboard": "dashboard",
}
_OTHER_DOOR = "other"


class MetricsMiddleware:
    """Count each request under the path pattern of its route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        head = ResponseHead(send)
        OPEN_REQUESTS.inc()
        try:
            await self._app(scope, receive, head.send)
        finally:
            OPEN_REQUESTS.dec()
            route = path_pattern(scope)
            method = scope["method"] if scope["method"] in METHODS else "other"
            door = _door(route)
            REQUESTS.labels(door, route, method, str(head.status)).inc()
            REQUEST_SECONDS.labels(route).observe(time.perf_counter() - started)
            RESPONSE_BYTES.labels(door, route).inc(head.length)
            code = state_of(scope).get("code")
            if code:
                REFUSALS.labels(code).inc()


def path_pattern(scope: Scope) -> str:
    """Return the pattern of the matched route, which contains no text that a client sent."""
    route: BaseRoute | None = scope.get("route")
    return route.path if isinstance(route, Route) else "unmatched"


@lru_cache
def _door(route: str) -> str:
    return next((door for start, door in _DOORS.items() if route.startswith(start)), _OTHER_DOOR)
