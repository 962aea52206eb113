"""Request metrics."""

from prometheus_client import REGISTRY
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak.web.metrics import OPEN_REQUESTS
from daybreak.web.middleware.metrics import MetricsMiddleware
from tests.unit.web.asgi import call, http_scope


async def endpoint(_request: Request) -> Response:
    assert value("daybreak_http_requests_open") == 1
    return Response("0123456789")


APP = Starlette(routes=[Route("/metrics-test/{name}", endpoint)], middleware=[Middleware(MetricsMiddleware)])


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_requests_are_counted_by_route_method_and_status() -> None:
    assert OPEN_REQUESTS.describe()
    route = "/metrics-test/{name}"
    for method in ("GET", "GET", "BREW"):
        call(APP, http_scope("/metrics-test/secret", method=method))
    assert value("daybreak_http_requests_total", route=route, method="GET", status="200") == 2
    assert value("daybreak_http_requests_total", route=route, method="other", status="405") == 1
    assert value("daybreak_http_request_seconds_count", route=route) == 3
    assert value("daybreak_http_response_bytes_total", route=route) >= 20
    assert value("daybreak_http_requests_open") == 0


def test_unknown_paths_share_one_label() -> None:
    before = value("daybreak_http_requests_total", route="unmatched", method="GET", status="404")
    call(APP, http_scope("/chosen-by-a-client"))
    assert value("daybreak_http_requests_total", route="unmatched", method="GET", status="404") == before + 1
