"""Page tokens."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daybreak.credentials import keyring, page_token
from daybreak.credentials.keyring import Keyring

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    return keyring.create(tmp_path / "keyring.json", NOW, secrets.token_bytes)


def test_token_returns_its_position(ring: Keyring) -> None:
    token = page_token.sign(40, subject="token:1", list_name="/shares", keyring=ring)
    assert page_token.verify(token, subject="token:1", list_name="/shares", keyring=ring) == 40


def test_token_works_for_its_subject_and_list_only(ring: Keyring) -> None:
    token = page_token.sign(40, subject="token:1", list_name="/shares", keyring=ring)
    position, kid, signature = token.split("-")
    for changed in ("", "40", f"41-{kid}-{signature}", f"{position}-0000-{signature}", token + "0", "-" + token):
        assert page_token.verify(changed, subject="token:1", list_name="/shares", keyring=ring) is None, changed
    assert page_token.verify(token, subject="token:2", list_name="/shares", keyring=ring) is None
    assert page_token.verify(token, subject="token:1", list_name="/schemas", keyring=ring) is None
