"""API tokens: format, checksum and digest."""

import re
import secrets
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.access import api_tokens


def test_token_has_the_published_format() -> None:
    tokens = {api_tokens.generate(secrets.token_bytes) for _ in range(200)}
    assert len(tokens) == 200
    for token in tokens:
        assert re.fullmatch(api_tokens.PATTERN, token)
        assert len(token) == len("service_api_") + 32 + 6
        assert api_tokens.is_well_formed(token)


def test_bytes_that_would_bias_the_alphabet_are_skipped() -> None:
    # 256 is not a multiple of 62: the last eight byte values are not used.
    skipped, used = bytes(range(248, 256)) * 8, bytes(range(184, 248))
    pieces = iter([skipped, used])
    alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    token = api_tokens.generate(lambda _: next(pieces))
    assert token[len(api_tokens.PREFIX) : -6] == "".join(alphabet[byte % 62] for byte in used[:32])


def test_checksum_is_crc32_in_base62() -> None:
    body = "service_api_" + "a" * 32
    number, letters = zlib.crc32(body.encode()), ""
    alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    while number:
        letters = alphabet[number % 62] + letters
        number //= 62
    assert api_tokens.is_well_formed(body + letters.rjust(6, "0"))


@given(st.integers(0, 49), st.characters(codec="ascii"))
def test_one_wrong_character_is_detected(at: int, character: str) -> None:
    token = api_tokens.generate(secrets.token_bytes)
    changed = token[:at] + character + token[at + 1 :]
    assert api_tokens.is_well_formed(changed) == (changed == token)


@pytest.mark.parametrize("text", ["", "service_api_", "service_api_" + "é" * 38, "x" * 50])
def test_other_text_is_not_a_token(text: str) -> None:
    assert not api_tokens.is_well_formed(text)
    assert not api_tokens.is_well_formed(api_tokens.generate(secrets.token_bytes) + "\n")


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert not api_tokens.is_well_formed(text)
    assert len(api_tokens.digest(text)) == 64


def test_characters_are_uniformly_distributed() -> None:
    letters = "".join(api_tokens.generate(secrets.token_bytes)[12:44] for _ in range(2000))
    counts = [letters.count(letter) for letter in set(letters)]
    assert len(counts) == 62
    # Expected: 1,032 of each, standard deviation 32. A biased modulus exceeds 520 (16 standard deviations).
    assert max(counts) - min(counts) < 520


def test_each_token_in_a_report_is_found_once() -> None:
    first, second = (api_tokens.generate(secrets.token_bytes) for _ in range(2))
    forged = first[:-1] + ("0" if first[-1] != "0" else "1")
    report = f'{{"found": ["{first}", "{second}"], "again": "{first}", "not": "{forged}"}}'
    assert api_tokens.find_all(report) == [first, second]
