"""The load generator of the serving benchmark."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from benchmarks.serving.figures import percentile
from benchmarks.serving.load import Plan, run

BODY = b"x" * 100_000
HEAD = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
REQUEST = "GET / HTTP/1.1\r\nHost: here\r\n\r\n"


def _answer(connection: socket.socket) -> None:
    with connection, contextlib.suppress(ConnectionError):
        while connection.recv(4096):
            connection.sendall(HEAD + BODY[:10])
            connection.sendall(BODY[10:])


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=_answer, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_closed_loop_counts_complete_responses(port: int) -> None:
    result = run(Plan(port, (REQUEST,), seconds=0.2, connections=3))
    assert result.statuses.keys() == {200}
    assert result.responses >= 3
    assert result.octets == result.responses * len(HEAD + BODY)


def test_open_loop_sends_the_planned_requests(port: int) -> None:
    result = run(Plan(port, (REQUEST,), seconds=0.3, connections=2, per_second=100.0))
    assert result.statuses == {200: 30}
    assert len(result.milliseconds) == len(result.delay_milliseconds) == 30
    assert all(
        took >= delay
        for took, delay in zip(sorted(result.milliseconds), sorted(result.delay_milliseconds), strict=True)
    )


def test_percentiles_are_observed_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.01, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]
    assert percentile([7.0], 0.99) == 7.0
