"""The bare framework. `python -m benchmarks.serving.hello PORT` serves one route on the HTTP server of Daybreak."""

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from daybreak.web.listener import TcpAddress
from daybreak.web.server import ServerHooks, serve


async def hello(_request: Request) -> Response:
    return PlainTextResponse("Hello, world!")


if __name__ == "__main__":
    address = TcpAddress("127.0.0.1", int(sys.argv[1]))
    serve(address, 1, lambda: Starlette(routes=[Route("/", hello)]), ServerHooks())
