"""A service that sends a byte now and then, or a response without an end. Each byte renews a timeout."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daybreak_client import connection, folder
from daybreak_client.connection import Connection
from daybreak_client.errors import Unreachable
from daybreak_client.service import Daybreak
from tests.parts.scripted_service import RAW, Reply, Request, ScriptedService, scripted_service
from tests.unit.client.test_hostile_service import ACCOUNT, changed, serving, written

# An error, because the body of a file is read elsewhere.
HEAD = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\n"


def endless(first: bytes, repeated: bytes) -> Iterator[bytes]:
    """Yield the beginning of a response, and then the same bytes for ever."""
    yield first
    while True:
        yield repeated
        time.sleep(0.002)


def request(client: Connection) -> None:
    client.request("GET", "/x", dict)


def download(client: Connection) -> None:
    with client.download("/link", 0):
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedService]:
    monkeypatch.setattr(connection, "_MAX_RESPONSE_SECONDS", 0.3)
    with scripted_service() as found:
        yield found


@pytest.mark.parametrize(
    ("first", "repeated"),
    [
        (HEAD + b"X-Name: ", b"x"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (HEAD + b"\r\n{", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;name=", b"x"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Name: ", b"x"),
    ],
    ids=["head", "interim responses", "body", "chunk", "trailer"],
)
@pytest.mark.parametrize("ask", [request, download])
def test_endless_response_is_given_up(
    service: ScriptedService, ask: Callable[[Connection], None], first: bytes, repeated: bytes
) -> None:
    service.script = lambda _: Reply(RAW, endless(first, repeated))
    client = Connection(service.url)
    with pytest.raises(Unreachable, match="too slowly"):
        ask(client)
    client.close()


def test_file_that_drips_is_given_up(service: ScriptedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MAX_RESPONSE_SECONDS", 60)
    monkeypatch.setattr(folder, "_STALL_SECONDS", 0.3)
    described = serving(changed("resources/0/files/0/bytes", 10**9))

    def script(request: Request) -> Reply:
        return Reply(200, endless(b"x", b"x")) if request.path == "/link" else described(request)

    service.script = script
    with Daybreak(service.url, "session") as client, pytest.raises(Unreachable, match="too slowly"):
        client.account(ACCOUNT).fetch(tmp_path)
    assert all(name.endswith(".part") for name in written(tmp_path))
