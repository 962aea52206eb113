"""The id of a request, and security headers."""

import pytest

from daybreak.web.middleware.response_headers import RequestIdMiddleware, SecurityHeadersMiddleware
from daybreak.web.request_state import Client
from tests.unit.web.asgi import REMOTE, call, echo, http_scope

PROXIED = Client("203.0.113.9", secure=True, loopback=False, proxied=True)


def request_id(client: Client, sent: str) -> str:
    scope = http_scope(headers=[("x-request-id", sent)], state={"client": client})
    found = call(RequestIdMiddleware(echo), scope).headers["x-request-id"]
    assert scope["state"]["request_id"] == found
    return found


def test_id_of_a_trusted_proxy_is_kept() -> None:
    assert request_id(PROXIED, "abcdefgh-1234") == "abcdefgh-1234"


@pytest.mark.parametrize(
    ("client", "sent"),
    [
        (REMOTE, "abcdefgh-1234"),
        (PROXIED, "a b\tc d e f g"),
        (PROXIED, "short"),
        (PROXIED, "service_api_0123456789abcdefghijABCDEFGHIJ01234567"),
    ],
)
def test_other_ids_are_replaced(client: Client, sent: str) -> None:
    found = request_id(client, sent)
    assert found != sent
    assert len(bytes.fromhex(found)) == 12


def test_headers_of_the_endpoint_are_kept() -> None:
    headers = call(SecurityHeadersMiddleware(echo, hsts=False), http_scope()).headers
    assert headers["cache-control"] == "public"
    assert headers["x-content-type-options"] == "nosniff"
    assert "strict-transport-security" not in headers


def test_https_service_sends_hsts() -> None:
    headers = call(SecurityHeadersMiddleware(echo, hsts=True), http_scope()).headers
    assert headers["strict-transport-security"].startswith("max-age=")
