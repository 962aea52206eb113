"""Routes with one handler a method, HEAD wherever GET is, and 405 with the methods there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

Handler = Callable[[Request], Awaitable[Response]]


def methods(path: str, **handlers: Handler) -> Route:
    """One route; `handlers` are named by their method in capitals."""
    table = dict(handlers)
    if "GET" in table:
        table.setdefault("HEAD", table["GET"])
    return Route(path, _ByMethod(table), methods=list(table), name=path)


class _ByMethod:
    """Answers with the handler of the request's method. An application of its own, not a function: those the framework
    wraps in a second layer that looks for exceptions.
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        response = await self._handlers[scope["method"]](request)
        await response(scope, receive, send)
