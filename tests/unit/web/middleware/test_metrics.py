"""Request metrics."""

from prometheus_client import REGISTRY
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak.web.metrics import OPEN_REQUESTS
from daybreak.web.middleware.client_address import ClientAddressMiddleware
from daybreak.web.middleware.metrics import MetricsMiddleware
from daybreak.web.middleware.request_log import AccessLogMiddleware
from daybreak.web.middleware.response_headers import RequestIdMiddleware
from daybreak.web.request_state import record_refusal
from tests.unit.web.asgi import call, http_scope


async def endpoint(_request: Request) -> Response:
    assert value("daybreak_http_requests_open") == 1
    return Response("0123456789")


async def refuse(request: Request) -> Response:
    record_refusal(request.scope, "invalid_token")
    return Response(status_code=401)


APP = Starlette(
    routes=[Route("/metrics-test/{name}", endpoint), Route("/sharing/v1/test", refuse)],
    middleware=[
        Middleware(ClientAddressMiddleware, trusted_proxies=()),
        Middleware(RequestIdMiddleware),
        Middleware(AccessLogMiddleware),
        Middleware(MetricsMiddleware),
    ],
)


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_requests_are_counted_by_route_method_and_status() -> None:
    assert OPEN_REQUESTS.describe()
    route = "/metrics-test/{name}"
    for method in ("GET", "GET", "BREW"):
        call(APP, http_scope("/metrics-test/secret", method=method))
    assert value("daybreak_http_requests_total", door="other", route=route, method="GET", status="200") == 2
    assert value("daybreak_http_requests_total", door="other", route=route, method="other", status="405") == 1
    assert value("daybreak_http_request_seconds_count", route=route) == 3
    assert value("daybreak_http_response_bytes_total", door="other", route=route) >= 20
    assert value("daybreak_http_requests_open") == 0


def test_unknown_paths_share_one_label() -> None:
    before = value("daybreak_http_requests_total", door="other", route="unmatched", method="GET", status="404")
    call(APP, http_scope("/chosen-by-a-client"))
    assert (
        value("daybreak_http_requests_total", door="other", route="unmatched", method="GET", status="404") == before + 1
    )


def test_requests_of_a_door_and_refusals_are_counted() -> None:
    before = value("daybreak_http_refusals_total", code="invalid_token")
    call(APP, http_scope("/sharing/v1/test"))
    assert value("daybreak_http_refusals_total", code="invalid_token") == before + 1
    labels = {"door": "sharing", "route": "/sharing/v1/test", "method": "GET", "status": "401"}
    assert value("daybreak_http_requests_total", **labels) == 1
