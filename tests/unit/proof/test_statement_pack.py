"""Statement packs."""

from __future__ import annotations

import uuid

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from daybreak.credentials.ssh_signature import SigningKey
from daybreak.domain.errors import FileDamaged
from daybreak.proof.statement_pack import (
    ACCOUNTS_PER_PACK,
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


@pytest.mark.parametrize("damage", [0, 1000, len(PACK) - len(PACK) // 3])
def test_truncated_pack_is_damaged(damage: int) -> None:
    with pytest.raises(FileDamaged):
        read_statement(lambda start, length: PACK[:damage][start : start + length], ACCOUNTS[-1])


def test_changed_statement_is_damaged() -> None:
    changed = bytearray(PACK)
    changed[len(PACK) - len(SIGNED[ACCOUNTS[-1]].signature) - 8] ^= 1
    with pytest.raises(FileDamaged):
        read_statement(lambda start, length: bytes(changed[start : start + length]), ACCOUNTS[-1])
