"""Requests to the provider: what a hostile or broken server cannot do."""

import asyncio
import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from daybreak.domain.errors import ProviderUnavailable
from daybreak.oidc import http
from daybreak.oidc.http import is_secure, send
from tests.parts.scripted_service import DISCONNECT, Reply, ScriptedService, scripted_service


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with scripted_service() as found:
        yield found


async def test_json_object_is_returned(service: ScriptedService) -> None:
    service.script = lambda _: Reply(400, {"error": "invalid_grant"})
    assert await send(service.url) == (400, {"error": "invalid_grant"})
    assert service.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (Reply(200, b"{" + b" " * http.MAXIMUM_BYTES + b"}"), "more than 262,144 bytes"),
        (Reply(200, gzip.compress(b"{}"), {"Content-Encoding": "gzip"}), "compressed"),
        (Reply(200, b"<html>"), "no JSON object"),
        (Reply(200, b"[]"), "no JSON object"),
        (Reply(200, b'{"issuer": "a", "issuer": "b"}'), "no JSON object"),
        (Reply(200, b"[" * 100_000), "no JSON object"),
        (Reply(DISCONNECT), "cannot be reached"),
    ],
    ids=["large", "compressed", "text", "list", "repeated member", "deep", "disconnected"],
)
async def test_hostile_response_is_refused(reply: Reply, detail: str, service: ScriptedService) -> None:
    service.script = lambda _: reply
    with pytest.raises(ProviderUnavailable) as refused:
        await send(service.url)
    assert detail in refused.value.detail


async def test_redirect_is_not_followed(service: ScriptedService) -> None:
    service.script = lambda request: (
        Reply(302, {}, {"Location": f"{service.url}/elsewhere"}) if request.path == "/" else Reply(200, {})
    )
    assert (await send(service.url))[0] == 302
    assert [request.path for request in service.requests] == ["/"]


async def test_slow_response_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "DEADLINE_SECONDS", 0.5)
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        # Each byte arrives in time; only the deadline of the whole exchange ends it.
        with closing(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not ended.wait(0.05):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=lambda: drip(server.accept()[0]))
        thread.start()
        try:
            with pytest.raises(ProviderUnavailable, match="does not respond") as refused:
                await send(f"http://127.0.0.1:{server.getsockname()[1]}")
        finally:
            ended.set()
            thread.join()
    assert "did not respond within" in refused.value.detail


async def test_requests_in_progress_are_limited() -> None:
    async def work(port: int) -> None:
        url = f"http://127.0.0.1:{port}/"
        waiting = [asyncio.create_task(send(url)) for _ in range(http.MAXIMUM_CONCURRENT)]
        await asyncio.sleep(0)
        assert http.slots.locked()
        with pytest.raises(ProviderUnavailable) as refused:
            await send(url)
        assert "in progress" in refused.value.detail
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    # The server accepts connections and never responds.
    with closing(socket.create_server(("127.0.0.1", 0), backlog=50)) as server:
        await work(server.getsockname()[1])
    assert not http.slots.locked()


async def test_closed_port_is_reported(service: ScriptedService) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with pytest.raises(ProviderUnavailable) as refused:
        await send(f"http://127.0.0.1:{port}/x?secret=1")
    assert "cannot be reached" in refused.value.detail
    assert "secret" not in refused.value.detail


@pytest.mark.parametrize(
    ("url", "secure"),
    [
        ("https://login.example.org/x", True),
        ("http://127.0.0.1:8080/x", True),
        ("http://[::1]/x", True),
        ("http://login.example.org/x", False),
        ("http://127.0.0.1.example.org/", False),
        ("ftp://127.0.0.1/", False),
        ("https://", False),
        ("https://[", False),
        (None, False),
    ],
)
def test_only_https_is_secure_outside_the_loopback(url: object, secure: bool) -> None:
    assert is_secure(url) is secure


async def test_plain_http_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ProviderUnavailable) as refused:
        await send("http://192.0.2.1/")
    assert "is not an https URL" in refused.value.detail


async def test_refused_connection_is_the_named_cause() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/keys"
    with pytest.raises(ProviderUnavailable) as caught:
        await send(url)
    assert caught.value.detail == f"{url} cannot be reached: Connection refused"
