"""Worker processes that hang or cannot start."""

from __future__ import annotations

import re
import sys
import urllib.request
from contextlib import suppress

from tests.parts.ports import free_port
from tests.parts.processes import running
from tests.parts.waiting import wait_until

# /hang blocks the event loop. /pid names the worker.
SERVICE = """
import os, sys, time
from contextlib import asynccontextmanager
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from daybreak.web.listener import TcpAddress
from daybreak.web.server import ServerHooks, serve
from daybreak.web.watchdog import watchdog

async def hang(request):
    time.sleep(600)

async def pid(request):
    return PlainTextResponse(str(os.getpid()))

main = os.getpid()

def load_app():
    if sys.argv[2] == "broken":
        raise RuntimeError("this worker cannot start")

    @asynccontextmanager
    async def lifespan(app):
        async with watchdog(main, hang_seconds=2):
            yield

    return Starlette(routes=[Route("/hang", hang), Route("/pid", pid)], lifespan=lifespan)

serve(TcpAddress("127.0.0.1", int(sys.argv[1])), 1, load_app, ServerHooks())
"""


def get(port: int, path: str, seconds: float = 60) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=seconds) as answer:
        return str(answer.read(), "ascii")


def test_hung_worker_is_replaced() -> None:
    port = free_port()
    with running([sys.executable, "-c", SERVICE, str(port), "healthy"]) as service:
        hung = wait_until(lambda: get(port, "/pid"), what="the first worker")
        with suppress(OSError):
            get(port, "/hang")
        assert wait_until(lambda: get(port, "/pid"), what="another worker") != hung
        # The log contains the stack of the hung worker.
        assert re.search(r'File "<string>", line \d+ in hang', service.log())
        assert service.stop() == 0


def test_service_ends_when_its_workers_cannot_start() -> None:
    with running([sys.executable, "-c", SERVICE, str(free_port()), "broken"]) as service:
        assert service.process.wait(60) == 1
        assert "this worker cannot start" in service.log()
        assert "crash loop" in service.log()
