"""Names of accounts without visible characters."""

import pytest

from daybreak.domain.identity import Account


def account(first: str, last: str, number: str = "+15550100000") -> Account:
    return Account("a", first, last, number, "toll_free")


@pytest.mark.parametrize(("first", "last"), [("", ""), ("  ", "\t"), ("\u200b", "\u00a0"), ("\u202e", "\x07")])
def test_invisible_name_is_the_phone_number(first: str, last: str) -> None:
    assert account(first, last).name == "+15550100000"


def test_visible_name_is_trimmed() -> None:
    assert account(" Ada", "Okafor ").name == "Ada Okafor"
    assert account(" ", "Okafor").name == "Okafor"


def test_accounts_without_a_name_sort_last() -> None:
    unnamed, zoe, ada = account(" ", " "), account("Zoë", "Silva"), account("ada", "Chen")
    assert sorted([unnamed, zoe, ada], key=lambda each: each.sort_key) == [ada, zoe, unnamed]
