"""Clients that read no responses, and clients that never complete a request."""

import resource
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.acceptance.installation import MAYA, NORTH, Installation
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.parts.waiting import wait_until

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
PIPELINED_BYTES = 256 * 1024


@pytest.mark.release
def test_pipelining_without_reading_uses_little_memory(make_installation: Callable[[], Installation]) -> None:
    with serving(make_installation(), workers=1, warm=False) as service, ExitStack() as connections:
        token = service.token(MAYA, NORTH)
        link = service.link(token, NORTH).removeprefix(service.address)
        requests = (
            REQUEST,
            f"GET {link} HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
            f"GET /download/v1/files/{NORTH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n".encode(),
        )
        service.get("/healthz")
        (worker,) = service.workers()
        before = _resident_megabytes(worker)
        for request in requests * 2:
            connection = connections.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            _send_until_blocked(connection, request * (PIPELINED_BYTES // len(request)))
        # The worker answers until the buffers of the connections are full.
        wait_until(lambda: _is_idle(worker), PATIENCE_SECONDS, what="the worker to stop")
        assert _resident_megabytes(worker) - before < 20
        assert service.get("/healthz").status_code == 200


@pytest.mark.release
def test_many_slow_heads_are_disconnected(service: Service) -> None:
    with ExitStack() as connections:
        slow = [connections.enter_context(socket.create_connection(("127.0.0.1", service.port))) for _ in range(200)]
        for connection in slow:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        assert service.get("/healthz").status_code == 200
        for connection in slow:
            connection.settimeout(PATIENCE_SECONDS)
            with suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass


def _send_until_blocked(connection: socket.socket, octets: bytes) -> None:
    """Send until the service reads nothing for half a second."""
    connection.settimeout(0.5)
    with suppress(TimeoutError):
        connection.sendall(octets)


def _is_idle(pid: int) -> bool:
    before = _cpu_ticks(pid)
    time.sleep(1)
    return _cpu_ticks(pid) - before <= 2


def _resident_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _cpu_ticks(pid: int) -> int:
    """Return the CPU time of a process, in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
