"""Refusal of plain HTTP."""

import pytest

from daybreak.web.middleware.refusals import RefusalMiddleware, plain_http_error
from daybreak.web.request_state import Client
from tests.unit.web.asgi import LOOPBACK, REMOTE, call, echo, http_scope

SECURE = Client("192.0.2.1", secure=True, loopback=False, proxied=True)


@pytest.mark.parametrize(
    ("client", "path", "status"),
    [
        (SECURE, "/x", 200),
        (REMOTE, "/x", 403),
        (LOOPBACK, "/x", 403),
        (REMOTE, "/healthz", 403),
        (LOOPBACK, "/healthz", 200),
        (LOOPBACK, "/readyz", 200),
    ],
)
def test_plain_http_is_allowed_for_local_health_checks_only(client: Client, path: str, status: int) -> None:
    scope = http_scope(path, state={"client": client, "request_id": "0123456789abcdef"})
    answer = call(RefusalMiddleware(echo, find_error=plain_http_error, base_url="https://a.example"), scope)
    assert answer.status == status
    if status == 403:
        assert answer.json()["code"] == "https_required"
