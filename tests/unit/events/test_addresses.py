"""Addresses and URLs that webhooks may be sent to."""

from contextlib import nullcontext
from ipaddress import ip_address, ip_network

import pytest

from daybreak.domain.errors import InvalidRequest
from daybreak.events.addresses import is_allowed, is_local_name, parse_url, require_allowed_host

REFUSED = (
    # private, shared, loopback, link-local and metadata
    "10.0.0.1", "172.16.5.4", "192.168.1.1", "100.64.0.1", "127.0.0.1", "127.8.8.8", "169.254.169.254", "169.254.0.1",
    "100.100.100.200", "168.63.129.16", "192.0.0.192", "0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1",
    "198.18.0.1", "192.88.99.1", "192.0.2.1",
    "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "64:ff9b:1::a00:1",
    # IPv4 in IPv6: mapped, compatible, NAT64, 6to4, Teredo
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe",
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_private_addresses_are_refused(text: str) -> None:
    assert not is_allowed(ip_address(text), ())


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::"])
def test_public_addresses_are_allowed(text: str) -> None:
    assert is_allowed(ip_address(text), ())


def test_allowed_networks_contain_ipv4_in_ipv6() -> None:
    allowed = (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    for text in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::5"):
        assert is_allowed(ip_address(text), allowed)
    for text in ("10.2.0.1", "::ffff:10.2.0.1", "127.0.0.1", "fe80::1"):
        assert not is_allowed(ip_address(text), allowed)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/x", "ftp://example.org/", "https://", "https:///x", "example.org", "https://user@example.org/",
        "https://user:secret@example.org/", "https://example.org/#part", "https://example.org:0/", "https://example.org:99999/",
        "https://exa mple.org/", "https://example.org/\\x", "https://ex\u00e4mple.org/", "https://exa\nmple.org/",
        "https://127.0.0.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://169.254.169.254/latest",
        "https://localhost/", "https://a.localhost/", "https://LOCALHOST./", "http://localhost/", "https://0.0.0.0/",
        "https://[fe80::1%25eth0]/", "https://" + "a" * 1000, "https://-.example.org/", "gopher://example.org",
    ],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="URL is not accepted"):
        parse_url(url, ())


@pytest.mark.parametrize(
    "url", ["https://example.org/daybreak?x=1", "https://8.8.8.8:8443/", "https://xn--exmple-cua.org/"]
)
def test_urls_that_are_accepted(url: str) -> None:
    assert parse_url(f" {url} ", ()) == url


@pytest.mark.parametrize(
    ("url", "is_accepted"),
    [
        ("https://hooks.example.org/x", True),
        ("https://HOOKS.example.org.:8443/x", True),
        ("https://a.b.example.net/", True),
        ("https://example.net/", False),
        ("https://badexample.net/", False),
        ("https://hooks.example.org.evil.example/", False),
        ("https://8.8.8.8/", False),
    ],
)
def test_only_listed_hosts_are_allowed(url: str, is_accepted: bool) -> None:
    require_allowed_host(url, ())
    with nullcontext() if is_accepted else pytest.raises(InvalidRequest, match="your operator allows"):
        require_allowed_host(url, ("hooks.example.org", "*.example.net"))


def test_plain_http_is_accepted_on_allowed_loopback_only() -> None:
    loopback = (ip_network("127.0.0.0/8"),)
    for url in ("http://127.0.0.1:8000/", "http://localhost:8000/x", "https://localhost/"):
        assert parse_url(url, loopback) == url
    for url, allowed in (
        ("http://10.0.0.1/", (ip_network("10.0.0.0/8"),)),
        ("http://example.org/", loopback),
        ("http://127.0.0.1/", (ip_network("10.0.0.0/8"),)),
    ):
        with pytest.raises(InvalidRequest):
            parse_url(url, allowed)


def test_numbers_that_browsers_read_as_addresses_stay_names() -> None:
    # The resolver reads 2130706433 as 127.0.0.1. The answer is checked when a webhook is sent.
    assert not is_local_name("2130706433")
    assert parse_url("https://2130706433/", ()) == "https://2130706433/"
