"""Addresses that the client connects to, TLS, and hosts that resolve to something else a moment later."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from daybreak.events import webhook_client
from daybreak.events.webhook_client import Outcome, WebhookClient
from daybreak.oidc.http import trusted_certificates
from tests.parts.certificates import own_certificate
from tests.parts.webhook_receiver import Receiver

Receive = Callable[..., Receiver]
LOOPBACK = (ip_network("127.0.0.0/8"),)
REFUSED = "The host was not found, or its address is not public."


async def _send(
    url: str, *answers: list[str], allowed: Any = (), timeout_seconds: float = 10.0
) -> tuple[Outcome, list[str]]:
    """Send a message to a host whose lookups have these answers, and return the hosts that were looked up."""
    looked_up: list[str] = []

    async def resolve(host: str, _port: int) -> list[str]:
        looked_up.append(host)
        return answers[min(len(looked_up), len(answers)) - 1]

    client = WebhookClient(allowed, timeout_seconds=timeout_seconds, resolve=resolve if answers else None)
    outcome = await client.send(url, {"X": "1"}, b"{}")
    return outcome, looked_up


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.5", "169.254.169.254", "64:ff9b::7f00:1", "fd00::1"]
)
async def test_name_of_a_private_address_is_refused(receive: Receive, address: str) -> None:
    receiver = receive()
    outcome, _ = await _send(f"https://example.org:{receiver.port}/", [address])
    assert (outcome.status, outcome.detail) == (None, REFUSED)
    assert receiver.received == []


async def test_one_private_address_among_several_is_refused(receive: Receive) -> None:
    receiver = receive()
    outcome, _ = await _send(f"https://example.org:{receiver.port}/", ["127.0.0.2", "10.0.0.5"], allowed=LOOPBACK)
    assert (outcome.detail, receiver.received) == (REFUSED, [])


async def test_unknown_host_has_the_same_answer_as_a_private_one() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        raise OSError("not found")

    client = WebhookClient((), resolve=resolve)
    outcome = await client.send("https://internal.example.org/", {}, b"{}")
    assert outcome.detail == REFUSED


async def test_name_that_resolves_differently_after_the_check_is_not_followed(receive: Receive) -> None:
    internal, public = receive(), Receiver(host="127.0.0.2")
    public.port = internal.port
    with public.running():
        # Only 127.0.0.2 is allowed, in the place of a public address. A second lookup would return 127.0.0.1.
        outcome, looked_up = await _send(
            f"http://localhost:{internal.port}/", ["127.0.0.2"], ["127.0.0.1"], allowed=(ip_network("127.0.0.2/32"),)
        )
    assert (outcome.status, looked_up) == (200, ["localhost"])
    assert (len(public.received), internal.received) == (1, [])
    # The name, not the address, is in the request.
    assert public.received[0].headers["host"] == f"localhost:{internal.port}"
    outcome, _ = await _send(f"http://localhost:{internal.port}/", ["127.0.0.1"], allowed=(ip_network("127.0.0.2/32"),))
    assert (outcome.detail, internal.received) == (REFUSED, [])


async def test_peer_is_checked_after_the_connection(receive: Receive, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = receive()
    # As if the connection had reached another address than the one that was checked.
    accepted = iter([True, False])
    monkeypatch.setattr(webhook_client._CheckedBackend, "_accepts", lambda _self, _address: next(accepted))
    outcome, _ = await _send(receiver.url(), ["127.0.0.1"])
    assert (outcome.detail, receiver.received) == (REFUSED, [])


async def test_plain_http_reaches_only_this_machine() -> None:
    outcome, looked_up = await _send("http://example.org/", ["127.0.0.1"], allowed=LOOPBACK)
    assert (outcome.detail, looked_up) == (REFUSED, [])


async def test_next_address_is_tried_when_one_is_down(receive: Receive) -> None:
    receiver = receive()
    outcome, _ = await _send(receiver.url(), ["127.0.0.3", "127.0.0.1"], allowed=LOOPBACK)
    assert (outcome.status, len(receiver.received)) == (200, 1)


async def test_certificate_is_checked_against_the_name(
    receive: Receive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_certificate(tmp_path / "own.pem")
    receiver = receive(certificate=tmp_path / "own.pem")
    trusted_certificates.cache_clear()
    outcome, _ = await _send(receiver.url(), allowed=LOOPBACK)
    assert outcome.status is None
    assert outcome.detail.startswith("TLS failed: self-signed certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    trusted_certificates.cache_clear()
    try:
        outcome, _ = await _send(receiver.url(), allowed=LOOPBACK)
        assert outcome.status == 200
        # The certificate is for 127.0.0.1 and localhost.
        outcome, _ = await _send(receiver.url(host="hooks.example.org"), ["127.0.0.1"], allowed=LOOPBACK)
        assert outcome.detail.startswith("TLS failed: Hostname mismatch")
    finally:
        trusted_certificates.cache_clear()


async def test_proxy_variables_are_ignored(receive: Receive, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, receiver = receive(), receive()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url("/"))
    outcome, _ = await _send(receiver.url(), allowed=LOOPBACK)
    assert (outcome.status, proxy.received) == (200, [])


async def test_endless_interim_responses_end_the_attempt() -> None:
    """They come before the body, whose limit does not count them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def flood() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                while True:
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

        thread = threading.Thread(target=flood)
        thread.start()
        outcome, _ = await _send(f"http://localhost:{listener.getsockname()[1]}/", allowed=LOOPBACK)
        thread.join()
    assert (outcome.status, outcome.detail) == (None, "The connection ended without a valid HTTP response.")


@pytest.mark.parametrize("stalls", [True, False], ids=["stalls", "ends"])
async def test_incomplete_body_does_not_change_the_status(*, stalls: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nab")
                if stalls:
                    connection.recv(1)

        thread = threading.Thread(target=accept)
        thread.start()
        url = f"http://localhost:{listener.getsockname()[1]}/"
        outcome, _ = await _send(url, allowed=LOOPBACK, timeout_seconds=0.5 if stalls else 60)
        thread.join()
    assert (outcome.status, outcome.is_success) == (202, True)
