"""Keys of rate limits: groups of addresses, seats and windows."""

import pytest

from daybreak.access import throttle
from daybreak.access.throttle import address_group, address_network
from daybreak.settings import AccessSettings


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("192.0.2.7", "192.0.2.7/32"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:0db8:0001:0002::", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("unix:", "unknown"),
        ("999.1.1.1", "unknown"),
    ],
)
def test_addresses_are_grouped(address: str, group: str) -> None:
    assert address_group(address) == group


def test_key_does_not_contain_the_email() -> None:
    rules = throttle.login_rules(AccessSettings(), email="my secret password", address="192.0.2.7")
    assert not any("secret" in rule.key for rule in rules)
    other = throttle.login_rules(AccessSettings(), email=" My Secret Password ", address="192.0.2.7")
    assert other == rules


def test_each_window_has_a_separate_key() -> None:
    keys = {rule.key for rule in throttle.second_factor_rules(AccessSettings(), seat_id="s")}
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.0/24"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ("::ffff:192.0.2.7", "192.0.2.0/24"),
        ("unix:", "unknown"),
    ],
)
def test_addresses_are_counted_in_their_network(address: str, network: str) -> None:
    assert address_network(address) == network
