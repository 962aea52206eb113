"""Routes with one handler a method, HEAD wherever GET is, and 405 with the methods there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Handler = Callable[[Request], Awaitable[Response]]


def methods(path: str, **handlers: Handler) -> Route:
    """One route; `handlers` are named by their method in capitals."""
    table = dict(handlers)
    if "GET" in table:
        table.setdefault("HEAD", table["GET"])
    if len(table) == 1:
        (handler,) = table.values()
    else:

        async def handler(request: Request) -> Response:
            return await table[request.method](request)

    return Route(path, handler, methods=list(table), name=path)
