"""Routes with one handler a method, HEAD wherever GET is, and which of them a path means."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """`path` as in `/files/{client_id}/{file:path}`; `handlers` by their method in capitals."""

    path: str
    pattern: re.Pattern[str]
    handlers: Mapping[str, Handler]


def methods(path: str, **handlers: Handler) -> Route:
    """One route; `handlers` are named by their method in capitals."""
    table = dict(handlers)
    if "GET" in table:
        table.setdefault("HEAD", table["GET"])
    pattern, _, _ = compile_path(path)
    return Route(path, pattern, table)


def find_route(routes: Sequence[Route], method: str, path: str) -> tuple[Route | None, dict[str, str]]:
    """The first route of the path that takes the method, else the first of the path, else None; and what stands in
    the path's places."""
    other: tuple[Route | None, dict[str, str]] = (None, {})
    for route in routes:
        found = route.pattern.fullmatch(path)
        if found is None:
            continue
        if method in route.handlers:
            return route, found.groupdict()
        if other[0] is None:
            other = route, found.groupdict()
    return other
