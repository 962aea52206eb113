"""Keyring file, rotation and derived keys."""

import hashlib
import json
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from daybreak.credentials import keyring
from daybreak.credentials.keyring import KeyringFile, Purpose
from daybreak.domain import operator_file
from daybreak.domain.errors import OperatorError
from tests.parts.replaced import with_functions

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


@pytest.mark.parametrize(
    ("purpose", "derived"),
    [
        ("session-jwt", "d7a8d8c177b8048442f3c9219255039a2971c48550dfd335f01fd746ad8ab84a"),
        ("mfa-jwt", "38f42f48943b27f8286a3a696d5f694aee8e6f400c4f55a2ac73bb726429e764"),
        ("signed-link", "4945612e6b3c1a0258ee721160fac2d1b24a3f62ed5aa102be5a69f4c1abc27f"),
        ("totp-seed", "0fb250a8d11a6e17a28d4d29f7305056f2f01b76212c1a51fa353f05f28268de"),
        ("csrf", "121e71c40f247c06b7074ea57bd99a5b2b1b67380d115e6c2574a423a5c66ba6"),
        ("dashboard-cookie", "be59094eaf7d1c2fb24463c13b68b95a60d9ef2454f36a72a757fa78a5e25d92"),
    ],
)
def test_derived_keys_never_change(purpose: Purpose, derived: str) -> None:
    key = keyring.Key("aa01", "signing", hashlib.sha256(b"first").digest(), NOW)
    assert keyring.Keyring((key,)).signing_key(purpose) == ("aa01", bytes.fromhex(derived))


def test_file_of_an_earlier_version_is_read(path: Path) -> None:
    """The file has the format of commit aa7e92d."""
    path.write_text("""{
 "version": 1,
 "keys": [
  {"kid": "aa00", "state": "gone", "secret": "", "created_at": "2026-11-18T04:00:00+00:00",
   "retired_at": "2026-11-19T04:00:00+00:00"},
  {"kid": "aa01", "state": "verify_only",
   "secret": "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e",
   "created_at": "2026-11-19T04:00:00.123456+00:00", "retired_at": "2026-11-20T04:00:00+00:00"},
  {"kid": "aa02", "state": "signing",
   "secret": "16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4",
   "created_at": "2026-11-20T04:00:00+00:00", "retired_at": null},
  {"kid": "aa03", "state": "next",
   "secret": "b1e99324505bd32da0e1f85dcf5e19a09db0481e8a15f62c41eb320304a8e927",
   "created_at": "2026-11-20T04:00:00+00:00", "retired_at": null}
 ]
}
""")
    keys = keyring.load(path).keys
    assert [key.state for key in keys] == ["gone", "verify_only", "signing", "next"]
    assert keys[1].secret == hashlib.sha256(b"first").digest()
    assert keys[1].created_at == datetime(2026, 11, 19, 4, 0, 0, 123456, UTC)
    assert keys[1].retired_at == NOW


def test_new_keyring_is_readable_only_by_its_owner(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    ring = keyring.load(path)
    assert [key.state for key in ring.keys] == ["signing", "next"]
    derived = {ring.derive(key.kid, purpose) for key in ring.keys for purpose in PURPOSES}
    assert len(derived) == 2 * len(PURPOSES)
    assert ring.derive("00", "csrf") is None
    assert all(key.secret.hex() not in repr(ring) for key in ring.keys)


def test_keyring_is_never_overwritten(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(OperatorError, match="never overwritten"):
        keyring.create(path, NOW, secrets.token_bytes)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_keyring_readable_by_others_is_rejected(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(OperatorError, match=f"^keys.file: {path} is readable by other users .*chmod 600"):
        keyring.load(path)


def test_mode_of_another_file_is_left_alone(path: Path) -> None:
    path.write_text("root:x:0:0:root:/root:/bin/bash\n")
    path.chmod(0o644)
    with pytest.raises(OperatorError, match=f"^keys.file: {path} is not a keyring") as caught:
        keyring.load(path)
    assert "chmod" not in caught.value.message


def test_folder_is_rejected_with_setting_and_path(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=f"^keys.file: {tmp_path} cannot be read: Is a directory.$"):
        keyring.load(tmp_path)


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        (bytes.fromhex("8d1fb2a06c9e4b7735f0c4d86a21e39f57bb0e6d914c2af3687fd5123ea49c"), "31 bytes"),
        (b"", "0 bytes"),
        (b"your-256-bit-secret-your-256-bit-secret", "text"),
        (b"changeme" * 8, "text"),
        (b"\x00" * 32, "repetition"),
        (b"\x01\xfe" * 16, "repetition"),
        (bytes(range(200, 240)), "sequence"),
        (
            bytes.fromhex("f9e6ee0cdb15676889b6867e6a47d74d20ade143b672bb8b0ac6d69418a78201"),
            "published",
        ),
    ],
)
def test_weak_or_published_secret_is_rejected(path: Path, secret: bytes, reason: str) -> None:
    rewrite(path, secret=secret.hex())
    with pytest.raises(OperatorError, match=reason):
        keyring.load(path)


@pytest.mark.parametrize(
    "content", ["", "nonsense", "[]", '{"version": 2}', '{"version": 1, "keys": [7]}', '{"version": 1, "keys": []}']
)
def test_malformed_file_is_rejected_with_its_name(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(OperatorError, match=path.name):
        keyring.load(path)


def test_gone_key_has_no_secret_even_if_the_file_has_one(path: Path) -> None:
    document = json.loads(path.read_text())
    gone = {**document["keys"][0], "kid": "00ff00ff", "state": "gone", "secret": secrets.token_hex(32)}
    path.write_text(json.dumps({**document, "keys": [*document["keys"], gone]}))
    read = keyring.load(path)
    assert [read.derive("00ff00ff", purpose) for purpose in PURPOSES] == [None] * len(PURPOSES)


def test_duplicate_signing_key_kid_or_secret_is_rejected(path: Path) -> None:
    document = json.loads(path.read_text())
    for field in ("state", "kid", "secret"):
        changed = json.loads(json.dumps(document))
        changed["keys"][0][field] = changed["keys"][1][field]
        path.write_text(json.dumps(changed))
        with pytest.raises(OperatorError):
            keyring.load(path)


def test_rotation_advances_states_and_drops_expired_keys() -> None:
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


def test_changed_file_is_read_again_unless_it_is_invalid(path: Path) -> None:
    watched = KeyringFile(path)
    before = watched.current()
    assert watched.current() is before
    rotated = before.rotate(NOW, secrets.token_bytes, lifetime=LIFETIME)
    keyring.save(path, rotated)
    after = watched.current()
    assert after.signing_kid == before.keys[1].kid
    assert after.derive(before.signing_kid, "session-jwt") is not None
    # A process that has not read the file again accepts what another process signs with the new key.
    assert before.derive(after.signing_kid, "session-jwt") is not None
    path.chmod(0o644)
    assert watched.current().signing_kid == after.signing_kid
    assert watched.fault is not None
    path.chmod(0o600)
    assert watched.current().signing_kid == after.signing_kid
    assert watched.fault is None


def test_failed_save_leaves_the_file_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    ring = keyring.load(path)

    def refuse(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(operator_file, "os", with_functions(os, fsync=refuse))
    with pytest.raises(OSError, match="No space"):
        keyring.save(path, ring.rotate(NOW, secrets.token_bytes, lifetime=LIFETIME))
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_file_that_cannot_be_replaced_leaves_no_other_file(path: Path) -> None:
    ring = keyring.load(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        keyring.save(path, ring)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_copy_of_an_interrupted_save_is_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = keyring.load(path)
    # Each call in another process.
    monkeypatch.setattr(keyring, "os", with_functions(os, getpid=iter(range(1, 9)).__next__))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            keyring.save(path, ring)
    assert len(list(path.parent.iterdir())) == 2
    keyring.save(path, ring.rotate(NOW, secrets.token_bytes, lifetime=LIFETIME))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
