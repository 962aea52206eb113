"""Worker processes that hang, cannot start, or are stopped while they start."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import suppress

import pytest

from tests.parts.ports import free_port
from tests.parts.processes import running
from tests.parts.waiting import wait_until

# /hang blocks the event loop. /pid names the worker. The second argument says how the worker starts.
SERVICE = """
import asyncio, os, sys, time
from contextlib import asynccontextmanager
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from daybreak.web.listener import TcpAddress
from daybreak.web.server import ServerHooks, serve
from daybreak.web import server
from daybreak.web.watchdog import kill_stopped_workers, watchdog

async def hang(request):
    time.sleep(600)

async def pid(request):
    return PlainTextResponse(str(os.getpid()))

main = os.getpid()
# Sooner than in the service.
server.kill_stopped_workers = lambda started: kill_stopped_workers(started, 2)

def load_app():
    if sys.argv[2] == "broken":
        raise RuntimeError("this worker cannot start")
    if sys.argv[2] == "loading":
        print("loading", flush=True)
        time.sleep(5)

    @asynccontextmanager
    async def lifespan(app):
        if sys.argv[2] == "opening":
            print("opening", flush=True)
            await asyncio.sleep(1)
        async with watchdog(main, hang_seconds=2):
            yield

    return Starlette(routes=[Route("/hang", hang), Route("/pid", pid)], lifespan=lifespan)

serve(TcpAddress("127.0.0.1", int(sys.argv[1])), 1, load_app, ServerHooks())
"""


def get(port: int, path: str, seconds: float = 60) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=seconds) as answer:
        return str(answer.read(), "ascii")


FORKS = """
import os
from daybreak.web.server import _after_forks

_after_forks(2, lambda: print("thread", flush=True))
for number in range(3):
    print(number, flush=True)
    if not os.fork():
        os._exit(0)
    os.wait()
"""


def test_thread_starts_after_the_last_fork() -> None:
    printed = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["0", "1", "thread", "2"]


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


@pytest.mark.release
def test_stopped_worker_is_replaced() -> None:
    port = free_port()
    with running([sys.executable, "-c", SERVICE, str(port), "healthy"]) as service:
        stopped = wait_until(lambda: get(port, "/pid"), what="the first worker")
        os.kill(int(stopped), signal.SIGSTOP)

        def answers() -> str | None:
            with suppress(OSError):
                return get(port, "/pid", 5)
            return None

        assert wait_until(answers, 120, what="another worker") != stopped
        assert "worker_stopped" in service.log()
        assert service.stop() == 0


@pytest.mark.release
def test_service_ends_when_its_workers_cannot_start() -> None:
    with running([sys.executable, "-c", SERVICE, str(free_port()), "broken"]) as service:
        assert service.process.wait(60) == 1
        assert "this worker cannot start" in service.log()
        assert "crash loop" in service.log()


@pytest.mark.release
@pytest.mark.parametrize("state", ["loading", "opening"])
def test_starting_worker_is_stopped_without_delay(state: str) -> None:
    with running([sys.executable, "-c", SERVICE, str(free_port()), state]) as service:
        service.wait_for_log(state)
        assert service.stop(seconds=60) == 0
        assert "refused to gracefully stop" not in service.log()
