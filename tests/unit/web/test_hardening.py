"""What every request passes, without a server."""

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from daybreak.domain.errors import FileStoreError
from daybreak.web.hardening import Hardening
from daybreak.web.metrics import Metrics
from daybreak.web.routing import Handler, methods
from daybreak.web.services import WebSettings


def ask(handler: Handler, settings: WebSettings, path: str = "/x", **changes: Any) -> tuple[int, dict[str, str], bytes]:
    """One GET to a route that takes every path, as POST takes /post."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"secret=1",
        "headers": [(b"host", b"a.example")], "client": ("192.0.2.1", 1), "scheme": "http", **changes,
    }  # fmt: skip
    routes = [methods("/post", POST=handler), methods("/{rest:path}", GET=handler)]
    if path == "/post":
        routes.pop()
    asyncio.run(Hardening(routes, echo, settings, Metrics())(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])


async def echo(request: Request) -> Response:
    """Answers with the path it sees."""
    return Response(request.scope["path"], headers={"Cache-Control": "public"})


async def broken(_request: Request) -> Response:
    """A defect."""
    raise RuntimeError("secret-of-the-inside")


class Breaking(Response):
    """An answer that cannot be sent: at once, or when it has begun."""

    begins = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.begins:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        raise FileStoreError("/folder/of/the/inside is away")


class BreakingLater(Breaking):
    begins = True


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


def test_a_path_that_takes_other_methods() -> None:
    status, headers, body = ask(echo, WebSettings("http://a.example"), "/post")
    assert (status, headers["allow"], json.loads(body)["code"]) == (405, "POST", "method_not_allowed")


def test_an_answer_that_fails_before_it_begins_is_a_problem() -> None:
    async def handler(_request: Request) -> Response:
        return Breaking(headers={"X-Row-Count": "3"})

    status, headers, body = ask(handler, WebSettings("http://a.example"))
    assert (status, json.loads(body)["code"]) == (503, "file_store_fault")
    assert "x-row-count" not in headers
    assert b"inside" not in body


def test_an_answer_that_fails_when_it_has_begun_gets_no_second_one() -> None:
    async def handler(_request: Request) -> Response:
        return BreakingLater(headers={"Content-Length": "7"})

    status, headers, body = ask(handler, WebSettings("http://a.example"))
    assert (status, headers["content-length"], body) == (200, "7", b"")
