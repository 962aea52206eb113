"""API tokens: their form, their checksum, their digest."""

from __future__ import annotations

import re
import secrets
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.credentials import api_token


def test_a_token_has_the_published_form_and_a_good_checksum() -> None:
    tokens = {api_token.mint(secrets.token_bytes) for _ in range(200)}
    assert len(tokens) == 200
    for token in tokens:
        assert re.fullmatch(api_token.PATTERN, token)
        assert len(token) == len("service_api_") + 32 + 6
        assert api_token.well_formed(token)


def test_every_letter_is_as_likely_as_any_other() -> None:
    # 256 is no multiple of 62: the eight bytes left over stand for no letter.
    left_over, used = bytes(range(248, 256)) * 8, bytes(range(184, 248))
    given_in_turn = iter([left_over, used])
    alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    token = api_token.mint(lambda _: next(given_in_turn))
    assert token[len(api_token.PREFIX) : -6] == "".join(alphabet[byte % 62] for byte in used[:32])


def test_the_checksum_is_crc32_of_what_precedes_in_base62() -> None:
    body = "service_api_" + "a" * 32
    number, letters = zlib.crc32(body.encode()), ""
    alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    while number:
        letters = alphabet[number % 62] + letters
        number //= 62
    assert api_token.well_formed(body + letters.rjust(6, "0"))


@given(st.integers(0, 49), st.characters(codec="ascii"))
def test_one_wrong_letter_is_found_without_asking_anybody(at: int, letter: str) -> None:
    token = api_token.mint(secrets.token_bytes)
    changed = token[:at] + letter + token[at + 1 :]
    assert api_token.well_formed(changed) == (changed == token)


@pytest.mark.parametrize("text", ["", "service_api_", "service_api_" + "é" * 38, "x" * 50])
def test_other_texts_are_not_tokens(text: str) -> None:
    assert not api_token.well_formed(text)
    assert not api_token.well_formed(api_token.mint(secrets.token_bytes) + "\n")


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert not api_token.well_formed(text)
    assert len(api_token.digest(text)) == 64


def test_every_letter_is_as_likely_as_the_others() -> None:
    letters = "".join(api_token.mint(secrets.token_bytes)[12:44] for _ in range(2000))
    counts = [letters.count(letter) for letter in set(letters)]
    assert len(counts) == 62
    # 1,032 expected each, standard deviation 32: eight of them is never, a biased modulus is not.
    assert max(counts) - min(counts) < 520


def test_tokens_are_found_in_a_report_once_each() -> None:
    first, second = (api_token.mint(secrets.token_bytes) for _ in range(2))
    forged = first[:-1] + ("0" if first[-1] != "0" else "1")
    report = f'{{"found": ["{first}", "{second}"], "again": "{first}", "not": "{forged}"}}'
    assert api_token.find_all(report) == [first, second]
