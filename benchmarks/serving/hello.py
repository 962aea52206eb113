"""The bare framework: `python -m benchmarks.serving.hello PORT` serves one route in the service's worker program."""

from __future__ import annotations

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from daybreak.web.listeners import open_listeners
from daybreak.web.worker import run_app


async def hello(_request: Request) -> Response:
    return PlainTextResponse("Hello, world!")


if __name__ == "__main__":
    (listener,) = open_listeners(f"127.0.0.1:{sys.argv[1]}", 1)
    run_app(Starlette(routes=[Route("/", hello)]), listener, beat=lambda: None)
