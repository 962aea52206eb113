"""Errors that no handler expects."""

import pytest
from starlette.types import Receive, Scope, Send

from daybreak.web.middleware.request_log import UnexpectedErrorMiddleware
from tests.unit.web.asgi import call, http_scope


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
