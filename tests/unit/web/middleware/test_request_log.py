"""Log lines of requests and of unexpected errors."""

from typing import Any

import pytest
import structlog
from starlette.types import Receive, Scope, Send

from daybreak.web.middleware.request_log import AccessLogMiddleware, UnexpectedErrorMiddleware
from tests.unit.web.asgi import call, echo, http_scope

TOKEN = "service_api_0123456789abcdefghijABCDEFGHIJ01234567"


def line(path: str = "/x", **changes: Any) -> dict[str, Any]:
    with structlog.testing.capture_logs() as lines:
        call(AccessLogMiddleware(echo), http_scope(path, **changes))
    (found,) = lines
    return dict(found)


def test_line_describes_request_and_response() -> None:
    found = line(headers=[("user-agent", "curl/8")])
    assert found["event"] == "request"
    assert (found["method"], found["path"], found["status"], found["length"]) == ("GET", "/x", 200, 2)
    assert (found["address"], found["user_agent"], found["request_id"]) == ("192.0.2.1", "curl/8", "0123456789abcdef")
    assert (found["subject"], found["client_id"]) == ("", "")


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        (f"/a/{TOKEN}", "/a/[redacted]"),
        ("/a/eyJhbGciOiJIUzI1NiJ9.e30.x", "/a/[redacted]"),
        (f"/a/{TOKEN.replace('_', '%5F')}/x", "/a/[redacted]/x"),
        ("/a?signature=abc", "/a"),
        ("/a%3Fsignature=abc", "/a"),
        ("/a%253fsignature=abc", "/a"),
        ("/a%3", "/a%3"),
        ("/" + "a" * 600, "/" + "a" * 499),
    ],
)
def test_path_is_logged_without_secrets(path: str, logged: str) -> None:
    assert line(path, query_string=b"signature=def")["path"] == logged


def test_token_in_the_user_agent_is_not_logged() -> None:
    assert line(headers=[("user-agent", f"x {TOKEN}")])["user_agent"] == "x [redacted]"


def test_token_in_the_method_is_not_logged() -> None:
    assert line(method=TOKEN)["method"] == "[redacted]"
    assert line(method="A" * 500)["method"] == "A" * 32


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("hidden-cause")


async def broken_later(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"7")]})
    raise RuntimeError("hidden-cause")


def test_unexpected_error_is_a_problem_without_details(capsys: pytest.CaptureFixture[str]) -> None:
    scope = http_scope(query_string=b"secret=1")
    answer = call(UnexpectedErrorMiddleware(broken, "http://a.example"), scope)
    assert (answer.status, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["code"] == "internal_error"
    assert answer.json()["request_id"] == scope["state"]["request_id"]
    assert b"hidden-cause" not in answer.body
    logged = capsys.readouterr().out
    assert "hidden-cause" in logged
    assert "secret=1" not in logged


def test_started_response_is_not_followed_by_another() -> None:
    answer = call(UnexpectedErrorMiddleware(broken_later, "http://a.example"), http_scope())
    assert (answer.starts, answer.status, answer.body) == (1, 200, b"")
