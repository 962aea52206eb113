"""The connection on real sockets: one answer a request, files by the kernel, nobody holds a place for nothing."""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from daybreak.web import http_connection, http_server
from daybreak.web.http_server import HttpServer
from tests.parts.waiting import wait_until

PATIENCE_SECONDS = 60
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HALF_A_HEAD = b"GET / HTTP/1.1\r\nX: "
Answer = Callable[[Scope, Receive, Send], object]


class App:
    """Answers with what it is given to answer with; remembers how its requests ended."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.faults: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        try:
            await self._answer(scope, receive, send)  # type: ignore[misc]
        except Exception as fault:
            self.faults.append(str(fault))
            raise


@contextmanager
def served(app: App) -> Iterator[int]:
    """The port that the application is served on, by a thread with an event loop of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        loop = asyncio.new_event_loop()
        server: HttpServer | None = None

        async def serve() -> None:
            nonlocal server
            server = HttpServer(app, listener)
            await server.serve()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        try:
            wait_until(lambda: server is not None and server.started, what="the server")
            yield port
        finally:
            assert server is not None
            server.stop()
            thread.join(PATIENCE_SECONDS)
            loop.close()
            assert not thread.is_alive()


def connected(port: int, octets: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    connection.sendall(octets)
    return connection


def to_the_end(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed, well or not."""
    received = b""
    with connection:
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
    return received


def answered(connection: socket.socket, path: bytes = b"/") -> bool:
    """Whether the next answer is the one to that path."""
    end = b"<" + path + b">"
    received = b""
    while not received.endswith(end):
        piece = connection.recv(65536)
        assert piece, received
        received += piece
    return statuses(received) == [b"200"]


def is_cut(connection: socket.socket, drop: bytes, *, every: float = 0.0) -> bool:
    """Whether a client that sends drops and nothing else is cut at last."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while time.monotonic() < deadline:
            connection.sendall(drop)
            time.sleep(every)
    except ConnectionError:
        return True
    return False


def statuses(answers: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d{3})", answers)


async def said(send: Send, body: bytes, *, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def its_path(scope: Scope, receive: Receive, send: Send) -> None:
    await said(send, b"<" + scope["path"].encode() + b">")


async def slowly_its_path(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.2)
    await its_path(scope, receive, send)


def a_file(path: Path, *segments: tuple[int, int], more: int = 0) -> Answer:
    """Answers with segments of a file, each an offset and a count; `more` octets are promised and not there."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        length = sum(count for _, count in segments) + more
        with path.open("rb", buffering=0) as file:
            start: Message = {"type": "http.response.start", "status": 200}
            await send({**start, "headers": [(b"content-length", b"%d" % length)]})
            for offset, count in segments:
                part: Message = {"type": "http.response.zerocopysend", "file": file, "more_body": True}
                await send({**part, "offset": offset, "count": count + more})
            await send({"type": "http.response.body", "body": b""})

    return answer


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file that is larger than what is sent at a time, and than all buffers together."""
    path = tmp_path / "large"
    path.write_bytes(b"".join(b"%015d\n" % number for number in range(1_250_000)))
    return path


def test_requests_in_one_piece_are_answered_in_turn() -> None:
    many = b"".join(GET.replace(b"GET /", b"GET /%d" % number) for number in range(20))
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with served(App(slowly_its_path)) as port:
        answers = to_the_end(connected(port, many + last))
    assert re.findall(rb"<(.*?)>", answers) == [*(b"/%d" % number for number in range(20)), b"/"]


def test_a_body_that_nobody_reads_is_passed_over() -> None:
    post = b"POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n"
    with served(App(its_path)) as port, connected(port, post) as connection:
        assert answered(connection, b"/first")
        connection.sendall(b"GET /hidden HTTP/1.1\r\n" * 10 + b" " * (300_000 - 220))
        connection.sendall(GET)
        assert answered(connection)


def test_what_is_no_request_gets_a_problem_and_the_end() -> None:
    with served(App(its_path)) as port, connected(port, GET) as connection:
        assert answered(connection)
        connection.sendall(b"\x00\x01\r\n\r\n" + GET)
        answers = to_the_end(connection)
    assert statuses(answers) == [b"400"]
    assert b"application/problem+json" in answers
    assert b'"code":"invalid_request"' in answers


def test_garbage_behind_a_request_mixes_no_answers() -> None:
    """What is being answered is given up: nobody could tell where its answer ends."""

    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"12345", "more_body": True})
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"

    app = App(half)
    with served(app) as port, connected(port, GET) as connection:
        received = connection.recv(65536)
        while b"12345" not in received:
            received += connection.recv(65536)
        connection.sendall(b"\x00\r\n\r\n")
        received += to_the_end(connection)
    assert statuses(received) == [b"200"]
    assert received.endswith(b"12345")
    assert not app.faults


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"200"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 99 + b"Host: a\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100 + b"Host: a\r\n\r\n", b"431"),
    ],
)
@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_a_head_is_bounded_in_whatever_pieces_it_comes(head: bytes, status: bytes, size: int) -> None:
    with served(App(its_path)) as port, connected(port) as connection:
        try:
            for start in range(0, len(head), size):
                connection.sendall(head[start : start + size])
        except ConnectionError:
            assert status == b"431"
        assert connection.recv(65536)[9:12] == status


def test_a_head_that_is_too_large_is_told_so_once() -> None:
    with served(App(its_path)) as port:
        answers = to_the_end(connected(port, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"Host: a\r\n\r\n"))
    assert statuses(answers) == [b"431"]
    assert b'"detail":"The head of the request is too large."' in answers


def test_a_header_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    # By its size, long before the time is over.
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 10 * PATIENCE_SECONDS)
    with served(App(its_path)) as port, connected(port, GET[:-2] + b"X: ") as connection:
        assert is_cut(connection, b"a" * 100_000)


@pytest.mark.parametrize(
    "beginning",
    [b"", GET, HALF_A_HEAD, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n"],
)
@pytest.mark.parametrize("drop", [b"\r\n", b"a"])
def test_nobody_holds_a_place_by_drops(monkeypatch: pytest.MonkeyPatch, beginning: bytes, drop: bytes) -> None:
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.5)
    with served(App(its_path)) as port, connected(port, beginning) as connection:
        assert is_cut(connection, drop, every=0.05)


@pytest.mark.parametrize("beginning", [b"", GET, HALF_A_HEAD])
def test_nobody_holds_a_place_by_silence(monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 1)
    with served(App(its_path)) as port:
        expected = {b"": [], GET: [b"200"], HALF_A_HEAD: [b"408"]}[beginning]
        assert statuses(to_the_end(connected(port, beginning))) == expected


def test_a_connection_in_use_stays_and_is_cut_when_nobody_uses_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 1)
    with served(App(its_path)) as port:
        # On a machine that stands still for a second a connection is idle: then another one has its turn.
        wait_until(lambda: _stays(port, 2.5), what="a connection that is in use")


def _stays(port: int, seconds: float) -> bool:
    """Whether a connection is there all the time that it is used, which is longer than it may be idle."""
    with connected(port) as connection:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                connection.sendall(GET)
                if not connection.recv(65536):
                    return False
            except ConnectionError:
                return False
            time.sleep(0.01)
        return to_the_end(connection) == b""


def test_a_later_head_has_no_more_time_than_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.5)
    with served(App(its_path)) as port, connected(port, GET) as connection:
        assert answered(connection)
        connection.sendall(HALF_A_HEAD)
        assert statuses(to_the_end(connection)) == [b"408"]


def test_more_connections_than_there_is_room_for_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "connections_allowed", lambda: 3)
    with served(App(its_path)) as port:
        within = [connected(port, GET) for _ in range(3)]
        assert all(answered(connection) for connection in within)
        with connected(port, GET) as waiting:
            waiting.settimeout(0.5)
            with pytest.raises(TimeoutError):
                waiting.recv(65536)
            within[0].close()
            waiting.settimeout(PATIENCE_SECONDS)
            assert answered(waiting)
        for connection in within:
            connection.close()


def test_a_file_goes_out_in_the_segments_that_are_asked_for(large: Path) -> None:
    octets = large.read_bytes()
    close = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    for segments in ([(0, len(octets))], [(16, 16), (0, 16)], [(5, 12_000_000), (len(octets) - 1, 1)]):
        with served(App(a_file(large, *segments))) as port:
            answers = to_the_end(connected(port, GET + close))
        expected = b"".join(octets[offset : offset + count] for offset, count in segments)
        first, second = answers.split(b"HTTP/1.1 200 OK\r\n")[1:]
        assert first.partition(b"\r\n\r\n")[2] == second.partition(b"\r\n\r\n")[2] == expected


def test_a_file_that_is_shorter_than_promised_leaves_a_cut_answer(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(b"x" * 1000)
    app = App(a_file(short, (0, 1000), more=1))
    with served(app) as port:
        answers = to_the_end(connected(port, GET))
    assert b"content-length: 1001" in answers
    assert len(answers.partition(b"\r\n\r\n")[2]) == 1000
    assert app.faults == ["A file is shorter than it was"]


def test_a_reader_that_leaves_is_no_fault(large: Path) -> None:
    app = App(a_file(large, (0, 20_000_000)))
    with served(app) as port:
        for _ in range(3):
            with connected(port, GET) as connection:
                assert connection.recv(1000)
        assert len(to_the_end(connected(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))) > 20_000_000
    assert not app.faults


def test_a_reader_that_takes_nothing_is_cut(monkeypatch: pytest.MonkeyPatch, large: Path) -> None:
    monkeypatch.setattr(http_server, "STALLED_SECONDS", 0.5)
    done = threading.Event()
    answer = a_file(large, (0, 20_000_000))

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(scope, receive, send)  # type: ignore[misc]
        done.set()

    with served(App(watched)) as port, connected(port, GET):
        assert done.wait(PATIENCE_SECONDS)


async def its_body(scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    await said(send, b"<%b %b>" % (scope["path"].encode(), body))


@pytest.mark.parametrize("offer", [b"h2c", b"websocket"])
@pytest.mark.parametrize("in_pieces", [True, False])
@pytest.mark.parametrize(
    ("framing", "body", "content"),
    [
        (b"Content-Length: %d" % len(GET), GET, GET),
        (b"Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(GET), GET), GET),
        (b"X: y", b"", b""),
    ],
)
def test_what_follows_an_offer_of_another_protocol_is_the_body(
    offer: bytes, in_pieces: bool, framing: bytes, body: bytes, content: bytes
) -> None:
    head = b"POST /first HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: %b\r\n%b\r\n\r\n" % (offer, framing)
    last = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    octets = (head + body) * 3 + last
    with served(App(its_body)) as port, connected(port) as connection:
        for start in range(0, len(octets), 7 if in_pieces else len(octets)):
            connection.sendall(octets[start : start + (7 if in_pieces else len(octets))])
        answers = to_the_end(connection)
    assert statuses(answers) == [b"200"] * 4
    assert re.findall(rb"<(/\w+) (.*?)>", answers, re.DOTALL) == [*[(b"/first", content)] * 3, (b"/last", b"")]


def test_nobody_gets_a_tunnel() -> None:
    for target in (b"/", b"a:443"):
        octets = b"CONNECT %b HTTP/1.1\r\nHost: a\r\n\r\n" % target + GET
        with served(App(its_path)) as port:
            assert statuses(to_the_end(connected(port, octets))) == [b"400"]
