"""Where a request comes from, as far as it can be believed."""

from ipaddress import ip_network
from typing import Any

import pytest

from daybreak.web.request_facts import Peers, gather, host_is_good

PROXIES = Peers((ip_network("10.0.0.0/8"), ip_network("::1/128")))


def scope(peer: str, *headers: tuple[str, str], scheme: str = "http") -> dict[str, Any]:
    return {
        "client": (peer, 1234),
        "scheme": scheme,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }


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
    ],
)
def test_the_client_is_the_last_one_that_no_trusted_proxy_vouches_for(
    peer: str, forwarded: list[str], address: str
) -> None:
    sent = [("x-forwarded-for", value) for value in forwarded]
    assert gather(scope(peer, *sent), PROXIES).address == address


def test_of_a_long_chain_the_end_alone_is_read() -> None:
    chain = "203.0.113.9," + "10.2.2.2," * 300 + "10.3.3.3"
    assert gather(scope("10.1.1.1", ("x-forwarded-for", chain)), PROXIES).address != "203.0.113.9"
    assert gather(scope("10.1.1.1", ("x-forwarded-for", chain[-(8 + 9 * 50) :])), PROXIES).address == "10.2.2.2"


def test_peers_that_never_come_again_are_not_kept_for_ever() -> None:
    peers = Peers(())
    kept = set()
    for number in range(20_000):
        peers.peer(f"198.18.{number // 256}.{number % 256}")
        kept.add(len(peers._known))
    assert max(kept) < 5_000


def test_https_is_believed_of_a_trusted_proxy_alone() -> None:
    assert gather(scope("10.1.1.1", ("x-forwarded-proto", "https")), PROXIES).secure
    assert not gather(scope("192.0.2.7", ("x-forwarded-proto", "https")), PROXIES).secure
    assert not gather(scope("10.1.1.1", ("x-forwarded-proto", "https, http")), PROXIES).secure
    assert gather(scope("192.0.2.7", scheme="https"), Peers(())).secure


def test_a_forwarded_client_is_not_the_loopback() -> None:
    assert gather(scope("::1"), PROXIES).from_loopback
    assert not gather(scope("::1", ("x-forwarded-for", "203.0.113.9")), PROXIES).from_loopback
    assert not gather(scope("127.0.0.1", ("x-forwarded-for", "127.0.0.1")), PROXIES).from_loopback, "an unknown proxy"


def test_request_ids_of_proxies_are_kept_and_others_are_not() -> None:
    given = ("x-request-id", "abcdefgh-1234")
    assert gather(scope("10.1.1.1", given), PROXIES).request_id == "abcdefgh-1234"
    assert gather(scope("192.0.2.7", given), PROXIES).request_id != "abcdefgh-1234"
    assert gather(scope("10.1.1.1", ("x-request-id", "a b\tc d e f g")), PROXIES).request_id.isalnum()


@pytest.mark.parametrize(
    ("hosts", "good"),
    [
        (["example.org"], True),
        (["example.org:8400"], True),
        (["[::1]:8400"], True),
        ([], False),
        ([""], False),
        (["a", "b"], False),
        (["a/b"], False),
        (["user@a"], False),
        (["a:99999999"], False),
    ],
)
def test_host(hosts: list[str], good: bool) -> None:
    assert host_is_good(scope("192.0.2.7", *(("host", host) for host in hosts))) is good
