"""The client address behind proxies."""

from ipaddress import ip_network

import pytest
from starlette.types import Receive, Scope, Send

from daybreak.web.middleware.client_address import ClientAddressMiddleware, Networks
from daybreak.web.request_state import Client, client_of
from tests.unit.web.asgi import call, echo, http_scope

PROXIES = (ip_network("10.0.0.0/8"), ip_network("::1/128"))


def client(peer: str, *headers: tuple[str, str], scheme: str = "http", trusted: Networks = PROXIES) -> Client:
    scope = http_scope(headers=headers, client=(peer, 1234), scheme=scheme)

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        await echo(inner, receive, send)

    call(ClientAddressMiddleware(app, trusted), scope)
    return client_of(scope)


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.7", [], "192.0.2.7"),
        ("192.0.2.7", ["203.0.113.9"], "192.0.2.7"),
        ("10.1.1.1", [], "10.1.1.1"),
        ("10.1.1.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.1.1.1", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        ("10.1.1.1", ["198.51.100.1", "203.0.113.9, 10.2.2.2"], "203.0.113.9"),
        ("10.1.1.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.1.1.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("10.1.1.1", ["unknown"], "10.1.1.1"),
        ("10.1.1.1", ["10.3.3.3"], "10.3.3.3"),
        ("::ffff:192.0.2.7", [], "192.0.2.7"),
        ("", [], ""),
        ("", ["203.0.113.9"], "203.0.113.9"),
        ("10.1.1.1", ["198.51.100.1,"], "10.1.1.1"),
    ],
)
def test_client_is_the_last_untrusted_address(peer: str, forwarded: list[str], address: str) -> None:
    sent = [("x-forwarded-for", value) for value in forwarded]
    assert client(peer, *sent).address == address


def test_only_the_end_of_a_long_chain_is_read() -> None:
    chain = "203.0.113.9," + "10.2.2.2," * 300 + "10.3.3.3"
    assert client("10.1.1.1", ("x-forwarded-for", chain)).address != "203.0.113.9"
    assert client("10.1.1.1", ("x-forwarded-for", chain[-(8 + 9 * 50) :])).address == "10.2.2.2"


def test_https_counts_only_from_a_trusted_proxy() -> None:
    assert client("10.1.1.1", ("x-forwarded-proto", "https")).secure
    assert not client("192.0.2.7", ("x-forwarded-proto", "https")).secure
    assert not client("10.1.1.1", ("x-forwarded-proto", "https, http")).secure
    assert client("192.0.2.7", scheme="https", trusted=()).secure


def test_forwarded_client_is_not_loopback() -> None:
    assert client("::1").loopback
    assert not client("::1", ("x-forwarded-for", "203.0.113.9")).loopback
    assert not client("127.0.0.1", ("x-forwarded-for", "127.0.0.1")).loopback, "a proxy that the settings do not name"
