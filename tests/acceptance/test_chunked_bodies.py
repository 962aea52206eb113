"""Chunked request bodies: chunk extensions, trailers and unread bodies are bounded."""

import re
import socket

import pytest

from tests.acceptance.service import PATIENCE_SECONDS, Service
from tests.acceptance.test_framing import BODY, SMUGGLED, answers_to, post

HEAD = post(b"Transfer-Encoding: chunked")
UNREAD = b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
SIZE = b"%x" % len(BODY)
PIECE = b"a" * 65_536
# More than the buffers of a connection take.
SENT_BYTES = 20_000_000


def statuses(service: Service, octets: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d{3})", answers_to(service, octets))


def test_short_extension_is_ignored(service: Service) -> None:
    """RFC 9112 §7.1.1: a recipient ignores extensions that it does not know."""
    last = SMUGGLED.replace(b"Host: a", b"Host: a\r\nConnection: close")
    octets = HEAD + SIZE + b';name="value"\r\n' + BODY + b"\r\n0\r\n\r\n" + last
    assert statuses(service, octets) == [b"401", b"200"]


@pytest.mark.parametrize(
    "chunks",
    [
        SIZE + b";" + b"a" * 20_000 + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
        SIZE + b"\r\n" + BODY + b"\r\n0;" + b"a" * 20_000 + b"\r\n\r\n",
        b"".join(b"1;" + b"a" * 1_000 + b"\r\n%c\r\n" % octet for octet in BODY) + b"0\r\n\r\n",
        SIZE + b"\r\n" + BODY + b"\r\n0\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        SIZE + b"\r\n" + BODY + b"\r\n0\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        SIZE + b";a\nb\r\n" + BODY + b"\r\n0\r\n\r\n",
        SIZE + b";a\rb\r\n" + BODY + b"\r\n0\r\n\r\n",
    ],
    ids=["extension", "last extension", "many extensions", "trailer", "many trailers", "line feed", "carriage return"],
)
def test_long_or_ambiguous_extensions_are_refused(service: Service, chunks: bytes) -> None:
    """The body is a valid login, which would be answered with 401."""
    assert statuses(service, HEAD + chunks + SMUGGLED) == [b"400"]


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (HEAD + SIZE + b";", PIECE),
        (HEAD + b"0\r\nX: ", PIECE),
        (HEAD, b"10000\r\n" + PIECE + b"\r\n"),
        (UNREAD + SIZE + b";", PIECE),
        (UNREAD, b"10000\r\n" + PIECE + b"\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n", PIECE),
    ],
    ids=["extension", "trailer", "chunks", "unread extension", "unread chunks", "unread length"],
)
def test_endless_body_is_cut(service: Service, beginning: bytes, piece: bytes) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(beginning)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(piece * (SENT_BYTES // len(piece)))
    assert service.get("/healthz").status_code == 200
