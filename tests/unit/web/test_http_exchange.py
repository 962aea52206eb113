"""Answers on real sockets: in one write where that can be, never with a header that reads as two."""

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.unit.web.test_http_connection import GET, App, connected, served, statuses, to_the_end

CLOSE = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def saying(*messages: Message) -> App:
    """An application that sends these messages."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return App(answer)


def start(*headers: tuple[bytes, bytes], status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(octets: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": octets, "more_body": more}


def answer_of(app: App, request: bytes = CLOSE) -> tuple[bytes, bytes]:
    """Head and body of the only answer, whose connection ends with it."""
    with served(app) as port:
        received = to_the_end(connected(port, request))
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


def test_head_and_small_body_come_in_one_write() -> None:
    """What is there at the first look is all there is."""
    app = saying(start((b"content-length", b"5000")), body(b"x" * 5000))
    with served(app) as port, connected(port) as connection:
        for _ in range(20):
            connection.sendall(GET)
            first = connection.recv(1 << 20)
            assert first.endswith(b"x" * 5000)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 3_000_000])
def test_a_body_of_any_size_comes_whole(size: int) -> None:
    head, rest = answer_of(saying(start((b"content-length", b"%d" % size)), body(b"x" * size)))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-length: %d" % size in head
    assert rest == b"x" * size


def test_a_body_in_pieces_of_no_known_length_comes_in_chunks() -> None:
    pieces = (body(b"ab", more=True), body(b"", more=True), body(b"c" * 70_000, more=True), body(b""))
    head, rest = answer_of(saying(start(), *pieces))
    assert b"transfer-encoding: chunked" in head
    assert b"content-length" not in head
    assert rest == b"2\r\nab\r\n" + b"11170\r\n" + b"c" * 70_000 + b"\r\n0\r\n\r\n"


def test_the_first_piece_does_not_wait_for_the_second() -> None:
    with served(App(_until_gone)) as port, connected(port, GET) as connection:
        received = b""
        while b"first" not in received:
            received += connection.recv(65536)
        assert statuses(received) == [b"200"]


async def _until_gone(scope: Scope, receive: Receive, send: Send) -> None:
    await send(start((b"content-length", b"10")))
    await send(body(b"first", more=True))
    await receive()
    assert (await receive())["type"] == "http.disconnect"


@pytest.mark.parametrize(("method", "status"), [(b"HEAD", 200), (b"GET", 204), (b"GET", 304)])
def test_an_answer_without_content_has_no_octet_after_its_head(method: bytes, status: int) -> None:
    length = [(b"content-length", b"3")] if method == b"HEAD" else []
    app = saying(start(*length, status=status), body(b"abc" if method == b"HEAD" else b""))
    head, rest = answer_of(app, CLOSE.replace(b"GET", method))
    assert statuses(head) == [b"%d" % status]
    assert b"transfer-encoding" not in head
    assert rest == b""
    assert not app.faults


@pytest.mark.parametrize(
    "header",
    [
        *((b"x-a", b"good" + bytes([octet])) for octet in (0, 8, 10, 11, 13, 31, 127)),
        (b"x-a", b"b\r\nset-cookie: c"),
        *((name, b"b") for name in (b"x a", b"x:", b"x\r\ny", b"x\x00", b"X-A", b"x\xff")),
    ],
)
def test_a_header_that_could_be_read_as_two_is_not_sent(header: tuple[bytes, bytes]) -> None:
    app = saying(start((b"content-length", b"1"), header), body(b"x"))
    head, _ = answer_of(app)
    assert statuses(head) == [b"500"]
    assert header[1] not in head
    assert len(app.faults) == 1
    assert app.faults[0].startswith("Invalid HTTP header")


def test_a_header_may_hold_tabs_and_letters_of_any_language() -> None:
    head, _ = answer_of(saying(start((b"content-length", b"0"), (b"x-1", "a\té".encode("latin-1"))), body(b"")))
    assert "x-1: a\té".encode("latin-1") in head


@pytest.mark.parametrize(
    ("messages", "sent", "fault"),
    [
        ((start((b"content-length", b"2")), body(b"abc")), b"", "longer"),
        ((start((b"content-length", b"4")), body(b"abc")), b"abc", "shorter"),
        ((start((b"content-length", b"1")), body(b"a"), body(b"b")), b"a", "out of turn"),
        ((start((b"content-length", b"1")), start(), body(b"b")), b"", "out of turn"),
        ((start((b"content-length", b"1")), {"type": "http.response.push"}), b"", "none of an answer"),
    ],
)
def test_an_answer_that_is_not_what_it_said_ends_the_connection(
    messages: tuple[Message, ...], sent: bytes, fault: str
) -> None:
    app = saying(*messages)
    with served(app) as port, connected(port, GET) as connection:
        if fault == "out of turn" and sent:
            # That answer is whole: its connection is good for another.
            assert connection.recv(65536).endswith(sent)
        else:
            head, _, rest = to_the_end(connection).partition(b"\r\n\r\n")
            assert rest == sent
            assert len(statuses(head)) == (1 if sent else 0)
    assert len(app.faults) == 1
    assert fault in app.faults[0]


def test_a_body_before_its_head_is_a_fault() -> None:
    app = saying(body(b"a"))
    head, _ = answer_of(app)
    assert statuses(head) == [b"500"]
    assert "out of turn" in app.faults[0]


@pytest.mark.parametrize(
    ("request_head", "given", "expected"),
    [
        (GET, [], b""),
        (CLOSE, [], b"close"),
        (GET.replace(b"1.1", b"1.0"), [], b"close"),
        (GET, [(b"connection", b"close")], b"close"),
        (CLOSE, [(b"connection", b"close")], b"close"),
    ],
)
def test_the_end_of_a_connection_is_announced_once(
    request_head: bytes, given: list[tuple[bytes, bytes]], expected: bytes
) -> None:
    with served(saying(start((b"content-length", b"1"), *given), body(b"a"))) as port:
        with connected(port, request_head) as connection:
            if expected:
                received = to_the_end(connection)
            else:
                received = connection.recv(65536)
                connection.sendall(GET)
                assert statuses(connection.recv(65536)) == [b"200"]
        assert received.count(b"connection: ") == received.count(b"connection: " + expected) == bool(expected)
