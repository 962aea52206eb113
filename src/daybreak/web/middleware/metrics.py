"""Request metrics."""

import time
from functools import lru_cache

from prometheus_client import Counter, Histogram
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.web.metrics import OPEN_REQUESTS, REFUSALS, REQUEST_SECONDS, REQUESTS, RESPONSE_BYTES
from daybreak.web.request_state import response_head_of, state_of

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
        started = time.perf_counter()
        OPEN_REQUESTS.inc()
        try:
            await self._app(scope, receive, send)
        finally:
            OPEN_REQUESTS.dec()
            method, head = scope["method"] if scope["method"] in METHODS else "other", response_head_of(scope)
            requests, seconds, response_bytes = _metrics_of(path_pattern(scope), method, head.status)
            requests.inc()
            seconds.observe(time.perf_counter() - started)
            response_bytes.inc(head.length)
            code = state_of(scope).get("code")
            if code:
                REFUSALS.labels(code).inc()


def path_pattern(scope: Scope) -> str:
    """Return the pattern of the matched route, which contains no text that a client sent."""
    route: BaseRoute | None = scope.get("route")
    return route.path if isinstance(route, Route) else "unmatched"


@lru_cache
def _metrics_of(route: str, method: str, status: int) -> tuple[Counter, Histogram, Counter]:
    """Return the metrics with their labels, which take longer to find than to change."""
    door = next((door for start, door in _DOORS.items() if route.startswith(start)), _OTHER_DOOR)
    requests = REQUESTS.labels(door, route, method, str(status))
    return requests, REQUEST_SECONDS.labels(route), RESPONSE_BYTES.labels(door, route)
