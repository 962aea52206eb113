"""The keyring file, its rotation and the keys derived from it."""

from __future__ import annotations

import json
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from daybreak.credentials import keyring
from daybreak.credentials.keyring import KeyringFile, Purpose, hkdf_sha256
from daybreak.domain.errors import OperatorError

NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)
LIFETIME = timedelta(days=7)
PURPOSES = get_args(Purpose)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keyring.json"
    keyring.create(path, NOW, secrets.token_bytes)
    return path


def rewrite(path: Path, **changes: object) -> None:
    document = json.loads(path.read_text())
    document["keys"][0].update(changes)
    path.write_text(json.dumps(document))


def test_hkdf_gives_the_values_of_rfc_5869_appendix_a() -> None:
    first = hkdf_sha256(b"\x0b" * 22, salt=bytes(range(13)), info=bytes(range(0xF0, 0xFA)), length=42)
    assert first.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")
    second = hkdf_sha256(bytes(range(80)), salt=bytes(range(0x60, 0xB0)), info=bytes(range(0xB0, 0x100)), length=82)
    assert second.hex().startswith("b11e398dc80327a1c8e7f78c596a4934")
    assert second.hex().endswith("cc30c58179ec3e87c14c01d5c1f3434f1d87")


def test_a_new_keyring_is_readable_by_its_owner_alone_and_reads_back(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    ring = keyring.load(path)
    assert [key.state for key in ring.keys] == ["signing", "next"]
    derived = {ring.derive(key.kid, purpose) for key in ring.keys for purpose in PURPOSES}
    assert len(derived) == 2 * len(PURPOSES)
    assert ring.derive("00", "csrf") is None
    assert all(key.secret.hex() not in repr(ring) for key in ring.keys)


def test_a_keyring_is_never_overwritten(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(OperatorError, match="never overwritten"):
        keyring.create(path, NOW, secrets.token_bytes)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_keyring_that_others_can_read_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(OperatorError, match="chmod 600"):
        keyring.load(path)


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        (bytes.fromhex("8d1fb2a06c9e4b7735f0c4d86a21e39f57bb0e6d914c2af3687fd5123ea49c"), "31 bytes"),
        (b"", "0 bytes"),
        (b"your-256-bit-secret-your-256-bit-secret", "text"),
        (b"changeme" * 8, "text"),
        (b"\x00" * 32, "repeats"),
        (b"\x01\xfe" * 16, "repeats"),
        (bytes(range(200, 240)), "sequence"),
        (
            bytes.fromhex("f9e6ee0cdb15676889b6867e6a47d74d20ade143b672bb8b0ac6d69418a78201"),
            "published",
        ),
    ],
)
def test_weak_and_known_secrets_are_refused(path: Path, secret: bytes, why: str) -> None:
    rewrite(path, secret=secret.hex())
    with pytest.raises(OperatorError, match=why):
        keyring.load(path)


@pytest.mark.parametrize("content", ["", "nonsense", "[]", '{"version": 2}', '{"version": 1, "keys": [7]}'])
def test_a_file_that_is_no_keyring_is_refused_with_a_message(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(OperatorError, match=path.name):
        keyring.load(path)


def test_a_key_that_is_gone_has_no_secret_whatever_the_file_says(path: Path) -> None:
    document = json.loads(path.read_text())
    gone = {**document["keys"][0], "kid": "00ff00ff", "state": "gone", "secret": secrets.token_hex(32)}
    path.write_text(json.dumps({**document, "keys": [*document["keys"], gone]}))
    read = keyring.load(path)
    assert [read.derive("00ff00ff", purpose) for purpose in PURPOSES] == [None] * len(PURPOSES)


def test_two_signing_keys_twice_one_kid_and_twice_one_secret_are_refused(path: Path) -> None:
    document = json.loads(path.read_text())
    for field in ("state", "kid", "secret"):
        changed = json.loads(json.dumps(document))
        changed["keys"][0][field] = changed["keys"][1][field]
        path.write_text(json.dumps(changed))
        with pytest.raises(OperatorError):
            keyring.load(path)


def test_rotation_moves_every_key_one_state_on_and_drops_it_after_its_lifetime() -> None:
    ring = keyring.Keyring(
        (
            keyring.Key("aaaa", "signing", secrets.token_bytes(32), NOW),
            keyring.Key("bbbb", "next", secrets.token_bytes(32), NOW),
        )
    )

    def step(ring: keyring.Keyring, at: datetime, used: frozenset[str] | None) -> keyring.Keyring:
        return ring.rotate(at, secrets.token_bytes, lifetime=LIFETIME, kids_in_use=used)

    once = step(ring, NOW, frozenset())
    assert [key.state for key in once.keys] == ["verify_only", "signing", "next"]
    assert once.signing_kid == "bbbb"
    assert once.derive("aaaa", "session-jwt") == ring.derive("aaaa", "session-jwt")
    soon = step(once, NOW + LIFETIME, frozenset())
    assert soon.derive("aaaa", "csrf") is not None
    late = step(once, NOW + LIFETIME + timedelta(seconds=1), frozenset())
    assert late.keys[0].state == "gone"
    assert late.derive("aaaa", "csrf") is None
    assert step(once, NOW + 2 * LIFETIME, frozenset({"aaaa"})).derive("aaaa", "csrf") is not None
    assert step(once, NOW + 2 * LIFETIME, None).derive("aaaa", "csrf") is not None


def test_a_running_process_sees_a_rotation_and_keeps_its_keys_when_the_file_turns_bad(
    path: Path,
) -> None:
    watched = KeyringFile(path)
    before = watched.current()
    assert watched.current() is before
    rotated = before.rotate(NOW, secrets.token_bytes, lifetime=LIFETIME)
    keyring.save(path, rotated)
    after = watched.current()
    assert after.signing_kid == before.keys[1].kid
    assert after.derive(before.signing_kid, "session-jwt") is not None
    # What another worker signs now was known to the process that has not looked yet.
    assert before.derive(after.signing_kid, "session-jwt") is not None
    path.chmod(0o644)
    assert watched.current().signing_kid == after.signing_kid
    assert watched.fault is not None
    path.chmod(0o600)
    assert watched.current().signing_kid == after.signing_kid
    assert watched.fault is None


def test_saving_leaves_the_old_file_whole_when_the_disk_refuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    ring = keyring.load(path)

    def refuse(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        keyring.save(path, ring.rotate(NOW, secrets.token_bytes, lifetime=LIFETIME))
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
