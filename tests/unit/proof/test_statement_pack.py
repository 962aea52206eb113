"""Statement packs."""

import struct
import uuid
import zlib
from random import Random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from daybreak.credentials.ssh_signature import SigningKey
from daybreak.domain.errors import FileDamaged
from daybreak.proof.statement_pack import (
    ACCOUNTS_PER_PACK,
    INDEX_BYTES,
    encode_pack,
    read_digests,
    read_statement,
    sign_statement,
)

ACCOUNTS = sorted(str(uuid.UUID(int=number)) for number in range(ACCOUNTS_PER_PACK))
KEY = SigningKey(Ed25519PrivateKey.generate())
SIGNED = {each: sign_statement(f"statement of {each}".encode() * 30, KEY, each) for each in ACCOUNTS}
PACK = encode_pack(list(SIGNED.items()))


def read(start: int, length: int) -> bytes:
    return PACK[start : start + length]


@pytest.mark.parametrize("client_id", [ACCOUNTS[0], ACCOUNTS[100], ACCOUNTS[-1]])
def test_each_account_has_its_own_statement(client_id: str) -> None:
    assert read_statement(read, client_id) == SIGNED[client_id]


def test_unknown_account_has_no_statement() -> None:
    assert read_statement(read, str(uuid.uuid4())) is None


def test_digests_are_those_of_the_statements() -> None:
    assert dict(read_digests(read)) == {each: signed.sha256 for each, signed in SIGNED.items()}


@pytest.mark.parametrize("share", [0, 0.1, 0.9])
def test_truncated_pack_is_damaged(share: float) -> None:
    truncated = PACK[: int(len(PACK) * share)]
    with pytest.raises(FileDamaged):
        read_statement(lambda start, length: truncated[start : start + length], ACCOUNTS[-1])


def test_changed_statement_is_damaged() -> None:
    changed = bytearray(PACK)
    changed[-8] ^= 1
    with pytest.raises(FileDamaged):
        read_statement(lambda start, length: bytes(changed[start : start + length]), ACCOUNTS[-1])


def test_pack_with_changed_dictionary_is_damaged() -> None:
    changed = bytearray(PACK)
    changed[20] ^= 1
    with pytest.raises(FileDamaged):
        read_statement(lambda start, length: bytes(changed[start : start + length]), ACCOUNTS[-1])


def test_equal_text_is_stored_once() -> None:
    alone = encode_pack([(ACCOUNTS[0], SIGNED[ACCOUNTS[0]])])
    assert len(PACK) < len(alone) * ACCOUNTS_PER_PACK / 4


def test_pack_of_an_earlier_version_is_read() -> None:
    client_id, signed = ACCOUNTS[7], SIGNED[ACCOUNTS[7]]
    body = zlib.compress(signed.content)
    entry = struct.pack(">16sIII32s", uuid.UUID(client_id).bytes, 72, len(body), len(signed.signature), signed.digest)
    pack = struct.pack(">8sI", b"DBSTMT1\n", 1) + entry + body + signed.signature
    assert read_statement(lambda start, length: pack[start : start + length], client_id) == signed
    assert list(read_digests(lambda start, length: pack[start : start + length])) == [(client_id, signed.sha256)]


# Around the end of the dictionary, around the window of the compression, and beyond both.
SIZES = st.one_of(
    st.integers(0, 200), st.integers(16_384 - 700, 16_384 + 300), st.integers(32_768 - 700, 32_768 + 300),
    st.just(100_000),
)  # fmt: skip


def content_of(size: int, seed: int) -> bytes:
    """Return text that repeats itself, or for an odd seed bytes that no compression shortens."""
    return Random(seed).randbytes(size) if seed % 2 else (f"statement {seed} " * (size // 10 + 1)).encode()[:size]


@given(st.lists(st.builds(content_of, SIZES, st.integers(0, 9)), min_size=1, max_size=4))
def test_statements_of_any_size_are_read_in_two_reads(contents: list[bytes]) -> None:
    """The index fits in one read of its maximum length, whatever the length of the first statement."""
    signed = {each: sign_statement(content, KEY, each) for each, content in zip(ACCOUNTS, contents, strict=False)}
    # A full pack has the longest index.
    pack = encode_pack([*signed.items(), *list(SIGNED.items())[len(signed) :]])
    lengths = []

    def read_counted(start: int, length: int) -> bytes:
        lengths.append(length)
        return pack[start : start + length]

    for client_id, statement in signed.items():
        assert read_statement(read_counted, client_id) == statement
        assert [lengths.pop(0), len(lengths)] == [INDEX_BYTES, 1]
        lengths.clear()
    assert dict(read_digests(read_counted)) == {each: found.sha256 for each, found in {**SIGNED, **signed}.items()}
