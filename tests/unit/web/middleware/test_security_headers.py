"""Security headers."""

from daybreak.web.middleware.response_headers import SecurityHeadersMiddleware
from tests.unit.web.asgi import call, echo, http_scope


def test_headers_of_the_endpoint_are_kept() -> None:
    headers = call(SecurityHeadersMiddleware(echo, hsts=False), http_scope()).headers
    assert headers["cache-control"] == "public"
    assert headers["x-content-type-options"] == "nosniff"
    assert "strict-transport-security" not in headers


def test_https_service_sends_hsts() -> None:
    headers = call(SecurityHeadersMiddleware(echo, hsts=True), http_scope()).headers
    assert headers["strict-transport-security"].startswith("max-age=")
