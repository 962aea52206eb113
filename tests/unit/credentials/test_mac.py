"""HMAC-SHA256 as the standard has it (RFC 4231 §4), message after message under one key."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.credentials.mac import Mac


@pytest.mark.parametrize(
    ("key", "message", "signature"),
    [
        (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    ],
)
def test_the_published_vectors_come_out(key: bytes, message: bytes, signature: str) -> None:
    assert Mac(key).hex(message) == signature


@given(st.binary(max_size=64), st.lists(st.binary(max_size=300), max_size=4))
def test_every_message_is_signed_as_if_it_were_the_first(key: bytes, messages: list[bytes]) -> None:
    mac = Mac(key)
    assert [mac.hex(each) for each in messages] == [hmac.digest(key, each, hashlib.sha256).hex() for each in messages]


def test_a_key_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        Mac(b"k" * 65)
