"""Client address, and the path part of `base_url`."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from daybreak.web.middleware.client_address import BasePathMiddleware, ClientAddressMiddleware, Networks
from daybreak.web.request_state import Client, client_of
from tests.unit.web.asgi import call, echo, http_scope

LATIN = st.text(st.characters(codec="latin-1"), max_size=30) | st.text("0123456789abcdef.:[], https", max_size=30)
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


ADDRESSES = st.ip_addresses()
TRUSTED = st.sampled_from(["10.1.2.3", "10.255.0.1", "::1", "::ffff:10.0.0.9"]).map(ip_address)
FORMS = (
    str,
    lambda address: f"{address}:4711" if address.version == 4 else f"[{address}]:4711",
    lambda address: str(address) if address.version == 4 else f"[{address}]",
)


def mapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_trusted(address: IPv4Address | IPv6Address) -> bool:
    return any(mapped(address) in network for network in PROXIES)


@given(
    peer=ADDRESSES | TRUSTED,
    chain=st.lists(st.tuples(ADDRESSES | TRUSTED, st.sampled_from(FORMS)), max_size=6),
    lines=st.integers(1, 3),
)
def test_any_chain_agrees_with_a_reference(
    peer: IPv4Address | IPv6Address, chain: list[tuple[Any, Callable[[Any], str]]], lines: int
) -> None:
    """The members are spread over several header lines."""
    members = [form(address) for address, form in chain]
    step = max(1, len(members) // lines)
    sent = [("x-forwarded-for", ", ".join(members[at : at + step])) for at in range(0, len(members), step)]
    hops = [peer, *(address for address, _ in reversed(chain))]
    expected = next((hop for hop in hops if not is_trusted(hop)), hops[-1])
    assert client(str(peer), *sent).address == str(mapped(expected))


@given(
    st.lists(st.tuples(st.sampled_from(["x-forwarded-for", "x-forwarded-proto", "forwarded"]), LATIN), max_size=4),
    st.booleans(),
)
def test_any_header_yields_an_address_that_was_sent(sent: list[tuple[str, str]], proxied: bool) -> None:
    peer = "10.1.1.1" if proxied else "192.0.2.7"
    found = client(peer, *sent)
    assert found.address == str(mapped(ip_address(found.address)))
    if not proxied:
        assert (found.address, found.secure, found.loopback, found.proxied) == (peer, False, False, False)


@pytest.mark.parametrize(
    ("path", "seen"), [("/data/x", "/x"), ("/x", "/x"), ("/database/x", "/database/x"), ("/data", "/")]
)
def test_base_path_is_optional_in_requests(path: str, seen: str) -> None:
    scope = http_scope(path)
    assert call(BasePathMiddleware(echo, "/data"), scope).body.decode() == seen
    assert scope["raw_path"].decode() == seen
