"""Networks of API tokens: their notation, and the addresses in them."""

import pytest

from daybreak.access.authorization import MAX_NETWORKS, allows, parse_networks
from daybreak.domain.errors import InvalidRequest


def test_networks_are_stored_in_one_notation() -> None:
    texts = ["203.0.113.7", " 203.0.113.7/32 ", "2001:DB8:0::/32", "10.0.0.0/255.0.0.0"]
    assert parse_networks(texts) == ("203.0.113.7/32", "2001:db8::/32", "10.0.0.0/8")
    assert parse_networks([]) == ()


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("nonsense", "'nonsense' is not an address or a network. Use one such as 203.0.113.0/24."),
        ("", "'' is not an address or a network. Use one such as 203.0.113.0/24."),
        ("10.0.0.5/8", "10.0.0.5/8 is an address within a network. Use 10.0.0.0/8."),
        ("10.0.0.0/33", "'10.0.0.0/33' is not an address or a network. Use one such as 203.0.113.0/24."),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1 contains an IPv4 address. Write it as IPv4."),
        ("a" * 5000, f"'{'a' * 60}' is not an address or a network. Use one such as 203.0.113.0/24."),
    ],
)
def test_invalid_network_is_named(text: str, remedy: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_networks(["203.0.113.7", text])
    assert [(fault.pointer, fault.detail) for fault in caught.value.faults] == [("/allowed_networks", remedy)]


def test_number_of_networks_is_limited() -> None:
    texts = [f"10.0.{number}.0/24" for number in range(MAX_NETWORKS)]
    assert len(parse_networks(texts)) == MAX_NETWORKS
    with pytest.raises(InvalidRequest, match="Use up to 50"):
        parse_networks([*texts, "192.0.2.1"])


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("203.0.113.0", True),
        ("203.0.113.255", True),
        ("203.0.114.0", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("", False),
        ("unix", False),
    ],
)
def test_address_is_looked_up_in_every_network(address: str, allowed: bool) -> None:
    assert allows(("203.0.113.0/24", "2001:db8::/32"), address) == allowed
    assert allows((), address)
