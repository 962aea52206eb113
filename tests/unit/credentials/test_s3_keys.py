"""Access keys of the S3 endpoint: they are derived from the keyring, and damaged ones are refused."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from daybreak.credentials.keyring import Key, Keyring
from daybreak.credentials.s3_keys import KnownKey, find_key, session_key, static_key

NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)
TOKEN_ID = "2b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11"
FIRST = Key("aa01", "signing", hashlib.sha256(b"first").digest(), NOW)
SECOND = Key("aa02", "next", hashlib.sha256(b"second").digest(), NOW)
RING = Keyring((FIRST, SECOND))
LATER = RING.rotate(NOW, lambda size: hashlib.sha256(b"third").digest()[:size], lifetime=timedelta(days=7))


def test_static_key_outlives_rotations_but_not_revocations() -> None:
    key = static_key(TOKEN_ID, keyring=RING)
    assert key.access_key_id == f"DBaa01{TOKEN_ID.replace('-', '')}"
    known = KnownKey(TOKEN_ID, key.secret)
    assert find_key(key.access_key_id, "", keyring=RING) == known
    assert find_key(key.access_key_id, "", keyring=LATER) == known
    assert static_key(TOKEN_ID, keyring=LATER).secret != key.secret
    assert find_key(key.access_key_id, "", keyring=LATER.without({"aa01"})) is None


def test_session_key_carries_expiry_and_version() -> None:
    key = session_key(TOKEN_ID, version=48, expires_at=NOW, keyring=RING)
    assert find_key(key.access_key_id, key.session_token, keyring=LATER) == KnownKey(TOKEN_ID, key.secret, NOW, 48)
    assert key.secret not in repr(key)
    other = session_key(TOKEN_ID, version=49, expires_at=NOW, keyring=RING)
    assert other.secret != key.secret


def test_secrets_differ_by_token_and_kind() -> None:
    static, other = (static_key(each, keyring=RING) for each in (TOKEN_ID, TOKEN_ID.replace("2b7d", "2b7e")))
    session = session_key(TOKEN_ID, version=48, expires_at=NOW, keyring=RING)
    assert len({static.secret, other.secret, session.secret}) == 3


@pytest.mark.parametrize(
    ("access_key_id", "session_token"),
    [
        ("", ""),
        ("AKIAIOSFODNN7EXAMPLE", ""),
        ("{static}", "{session}"),
        ("{static}0", ""),
        ("{session_id}", ""),
        ("{session_id}", "{session}0"),
        ("{session_id}", "9{session}"),
        ("DSaa022b7d3c6e5a514d0c9a3e0f5d3f0c1a11", "{session}"),
        ("DSaa012b7d3c6e5a514d0c9a3e0f5d3f0c1a12", "{session}"),
        ("DBaa032b7d3c6e5a514d0c9a3e0f5d3f0c1a11", ""),
    ],
)
def test_invalid_keys_are_unknown(access_key_id: str, session_token: str) -> None:
    session = session_key(TOKEN_ID, version=48, expires_at=NOW, keyring=RING)
    values = {
        "static": static_key(TOKEN_ID, keyring=RING).access_key_id,
        "session_id": session.access_key_id,
        "session": session.session_token,
    }
    assert find_key(access_key_id.format(**values), session_token.format(**values), keyring=RING) is None
