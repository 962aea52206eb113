"""Clients that read no responses, and clients that never complete a request."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from tests.acceptance.installation import MAYA, NORTH, Installation
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.parts.processes import cpu_seconds, resident_megabytes
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
        before = resident_megabytes(worker)
        for request in requests * 2:
            connection = connections.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            _send_until_blocked(connection, request * (PIPELINED_BYTES // len(request)))
        # The worker answers until the buffers of the connections are full.
        wait_until(lambda: _is_idle(worker), PATIENCE_SECONDS, what="the worker to stop")
        assert resident_megabytes(worker) - before < 20
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
    before = cpu_seconds(pid)
    time.sleep(1)
    return cpu_seconds(pid) - before < 0.025
