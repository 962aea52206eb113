"""Refusal of requests by their head, and of plain HTTP."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.web.middleware.refusals import RefusalMiddleware, head_error, plain_http_error
from daybreak.web.request_state import Client
from tests.unit.web.asgi import LOOPBACK, REMOTE, call, echo, http_scope

HOST = ("host", "a.example")


def refusal(**changes: Any) -> str:
    """Return the status and code of the refusal, "" when the request is accepted."""
    app = RefusalMiddleware(echo, find_error=head_error, base_url="http://a.example", headers={"Connection": "close"})
    answer = call(app, http_scope(**changes))
    if answer.status == 200:
        return ""
    assert answer.headers["connection"] == "close"
    return f"{answer.status} {answer.json()['code']}"


@pytest.mark.parametrize("host", ["example.org", "example.org:8400", "[::1]:8400"])
def test_host_may_be_a_name_or_an_address(host: str) -> None:
    assert refusal(headers=[("host", host)]) == ""


@pytest.mark.parametrize("changes", [{"method": "CONNECT"}, {"path": "*"}, {"path": ""}, {"path": "a:80"}])
def test_target_must_be_a_path(changes: dict[str, str]) -> None:
    assert refusal(**changes) == "400 invalid_request"


def test_large_head_is_refused() -> None:
    assert refusal(path="/" + "a" * 8_000) == ""
    assert refusal(path="/" + "a" * 8_192) == "414 uri_too_long"
    assert refusal(query_string=b"a" * 8_192) == "414 uri_too_long"
    assert refusal(headers=[HOST, ("x", "a" * 65_000)]) == ""
    assert refusal(headers=[HOST, *(("x", "a" * 33_000) for _ in range(2))]) == "431 head_too_large"


@given(
    st.lists(
        st.tuples(st.sampled_from(["host", "x", "transfer-encoding"]), st.text(st.characters(codec="latin-1"))),
        max_size=4,
    ),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.text(max_size=40),
)
def test_any_head_is_accepted_or_refused(headers: list[tuple[str, str]], path: str, query: bytes, method: str) -> None:
    found = refusal(headers=headers, path=path, query_string=query, method=method)
    hosts = [value for name, value in headers if name == "host"]
    codings = [value for name, value in headers if name == "transfer-encoding"]
    if found == "":
        assert len(hosts) == 1
        assert not set(hosts[0]) & set("/@\\ ,#?\t\r\n\0")
        assert [coding.lower() for coding in codings] in ([], ["chunked"])
        assert path.startswith("/")
        assert "\0" not in path
    else:
        assert found[:3] in {"400", "404"}


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
