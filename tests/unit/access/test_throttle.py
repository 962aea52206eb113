"""What one caller is taken for."""

from __future__ import annotations

import pytest

from daybreak.access import throttle
from daybreak.access.throttle import Limits, address_group


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:0db8:0001:0002::", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("unix:", "unknown"),
        ("999.1.1.1", "unknown"),
    ],
)
def test_addresses_are_grouped(address: str, group: str) -> None:
    assert address_group(address) == group


def test_what_is_typed_as_an_email_is_no_part_of_a_key() -> None:
    rules = throttle.login_rules(Limits(), email="my secret password", address="192.0.2.7")
    assert not any("secret" in rule.key for rule in rules)
    other = throttle.login_rules(Limits(), email=" My Secret Password ", address="192.0.2.7")
    assert other == rules


def test_each_window_has_a_key_of_its_own() -> None:
    keys = {rule.key for rule in throttle.second_factor_rules(Limits(), seat_id="s")}
    assert len(keys) == 3
