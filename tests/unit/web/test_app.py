"""Responses to errors."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from daybreak.domain.errors import FileStoreError
from daybreak.web.app import exception_handlers
from tests.configured import configured
from tests.unit.web.asgi import Answer, call, http_scope


class Failing(Response):
    """A response that fails while it is sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise FileStoreError("/srv/files is unavailable")


async def ok(_request: Request) -> Response:
    return Response("ok")


async def failing(_request: Request) -> Response:
    return Failing(headers={"X-Row-Count": "3"})


async def disconnected(_request: Request) -> Response:
    raise ClientDisconnect


def answer(path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    dashboard: Any = Mock(services=Mock(settings=configured(base_url="http://a.example")))
    app = Starlette(
        routes=[
            Route("/several", ok),
            Route("/several", ok, methods=["PUT"]),
            Route("/failing", failing),
            Route("/disconnected", disconnected),
        ],
        exception_handlers=exception_handlers(dashboard),
    )
    app.router.redirect_slashes = False
    return call(app, http_scope(path, list((headers or {}).items()), method=method))


def test_allow_lists_the_methods_of_every_matching_route() -> None:
    found = answer("/several", "DELETE")
    assert (found.status, found.headers["allow"]) == (405, "GET, HEAD, PUT")
    assert found.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/nowhere", "/several/", "//several"])
def test_unknown_path_is_a_problem(path: str) -> None:
    found = answer(path)
    assert (found.status, found.json()["code"]) == (404, "not_found")
    assert "location" not in found.headers


def test_error_before_the_response_starts_is_a_problem() -> None:
    found = answer("/failing")
    assert (found.status, found.json()["code"]) == (503, "file_store_fault")
    assert "x-row-count" not in found.headers
    assert b"/srv" not in found.body


def test_incomplete_body_is_a_problem() -> None:
    found = answer("/disconnected")
    assert (found.status, found.json()["code"]) == (400, "invalid_request")
