"""MACs: the encoding of fields and the comparison."""

import hmac

from hypothesis import given
from hypothesis import strategies as st

from daybreak.credentials.keyring import is_mac, mac_of

KEY = bytes(range(32))
FIELDS = st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=4)


def test_mac_is_hmac_sha256_of_length_prefixed_fields() -> None:
    message = b"\x00\x00\x00\x03abc\x00\x00\x00\x00\x00\x00\x00\x02\xc3\xa4"
    assert mac_of(KEY, "abc", "", "ä") == hmac.digest(KEY, message, "sha256").hex()


@given(FIELDS, FIELDS)
def test_other_fields_have_another_mac(fields: list[str], other: list[str]) -> None:
    assert is_mac(mac_of(KEY, *fields), KEY, *other) == (fields == other)


def test_same_text_in_other_fields_has_another_mac() -> None:
    split = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc")]
    assert len({mac_of(KEY, *fields) for fields in split}) == len(split)


@given(st.text(max_size=70))
def test_any_other_text_is_rejected(text: str) -> None:
    assert not is_mac(text, KEY, "a")
    assert not is_mac(mac_of(KEY, "a") + text, KEY, "b")
