"""Signed cookies."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from starlette.requests import Request

from daybreak.credentials import keyring
from daybreak.credentials.keyring import Keyring
from daybreak.web.dashboard import session_cookie

SID = "0c7f1c3e-8c39-4a4e-9c1d-6a4f0c1d2e3f"


def test_cookie_is_valid_for_its_kind_only(ring: Keyring) -> None:
    value = session_cookie.seal(SID, kind="device", keyring=ring)
    assert session_cookie.unseal(value, kind="device", keyring=ring) == SID
    assert session_cookie.unseal(value, kind="session", keyring=ring) is None
    assert session_cookie.unseal(value + "0", kind="device", keyring=ring) is None
    assert session_cookie.unseal(None, kind="device", keyring=ring) is None


@pytest.mark.parametrize(
    ("kind", "mac"),
    [
        ("session", "05f5eac8f07a83fb3b5e7460fcb2e14aba787c89e30e13087504c8b8ef4ed339"),
        ("device", "3ebefc7cc4933d0a70fca3f1d761612c58ea8c1ddbb9e2b57d021ee78015162e"),
        ("form", "9825f96b5dff6b5a21e5a95a6bb180cd9e4b3cfec5af4feb891773326a96d48c"),
    ],
)
def test_cookie_of_an_earlier_version_is_accepted(kind: str, mac: str) -> None:
    """The cookies were written by commit aa7e92d, whose MAC had no length prefixes."""
    key = keyring.Key("aa01", "signing", hashlib.sha256(b"first").digest(), datetime(2026, 11, 20, 4, tzinfo=UTC))
    assert session_cookie.unseal(f"aa01.{SID}.{mac}", kind=kind, keyring=Keyring((key,))) == SID
    assert session_cookie.unseal(f"aa01.{SID}.{mac}", kind="other", keyring=Keyring((key,))) is None


def test_cookie_is_read_if_sent_exactly_once(ring: Keyring, post_with: Callable[..., Request]) -> None:
    value = session_cookie.seal(SID, kind="form", keyring=ring)
    valid = f"daybreak-form={value}"
    for cookie, payload in (
        (valid, SID),
        (f"a=b; {valid} ;c", SID),
        (f"{valid}; daybreak-form=other", None),
        (f"{valid}; {valid}", None),
        (f'daybreak-form="{value}"', None),
        ("daybreak-form", None),
        ("", None),
    ):
        found = session_cookie.read_cookie(post_with(cookie=cookie), "form", secure=False, keyring=ring)
        assert found == payload, cookie


def test_cookie_has_the_host_prefix_over_https_only() -> None:
    assert session_cookie.cookie_name("session", secure=True) == "__Host-daybreak-session"
    assert session_cookie.cookie_name("session", secure=False) == "daybreak-session"
