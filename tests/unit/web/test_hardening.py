"""The layer around every route, without a server."""

import asyncio
import json
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.web.hardening import Hardening
from daybreak.web.metrics import Metrics
from daybreak.web.services import WebSettings


def ask(app: ASGIApp, settings: WebSettings, path: str = "/x", **changes: Any) -> tuple[int, dict[str, str], bytes]:
    """One GET through the layer."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"secret=1",
        "headers": [(b"host", b"a.example")], "client": ("192.0.2.1", 1), "scheme": "http", **changes,
    }  # fmt: skip
    asyncio.run(Hardening(app, settings, Metrics())(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])


async def echo(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answers with the path it sees."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"public")]})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """A defect."""
    raise RuntimeError("secret-of-the-inside")


def test_a_defect_is_a_problem_that_tells_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status, headers, body = ask(broken, WebSettings("http://a.example"))
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert json.loads(body)["code"] == "internal_error"
    assert json.loads(body)["request_id"] == headers["x-request-id"]
    assert b"inside" not in body
    assert "secret=1" not in capsys.readouterr().out


def test_what_a_route_sets_stays() -> None:
    _, headers, _ = ask(echo, WebSettings("http://a.example"))
    assert headers["cache-control"] == "public"
    assert headers["x-content-type-options"] == "nosniff"
    assert "strict-transport-security" not in headers


def test_https_has_hsts() -> None:
    assert "strict-transport-security" in ask(echo, WebSettings("https://a.example"))[1]


@pytest.mark.parametrize(
    ("path", "seen"), [("/data/x", "/x"), ("/x", "/x"), ("/database/x", "/database/x"), ("/data", "/")]
)
def test_the_path_of_the_base_url_may_be_there_or_not(path: str, seen: str) -> None:
    assert ask(echo, WebSettings("http://a.example/data"), path)[2].decode() == seen


def test_plain_http_is_refused_when_https_is_required() -> None:
    settings = WebSettings("https://a.example", require_https=True)
    assert ask(echo, settings)[0] == 403
    assert ask(echo, settings, scheme="https")[0] == 200
    assert ask(echo, settings, "/healthz")[0] == 403
    assert ask(echo, settings, "/healthz", client=("127.0.0.1", 1))[0] == 200


@pytest.mark.parametrize("headers", [[], [(b"host", b"a"), (b"host", b"b")]])
def test_one_host(headers: list[tuple[bytes, bytes]]) -> None:
    status, answered, _ = ask(echo, WebSettings("http://a.example"), headers=headers)
    assert (status, answered["connection"]) == (400, "close")
