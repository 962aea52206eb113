"""Forms, cookies and addresses: what is ours is taken, everything else is not."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from daybreak.credentials import keyring
from daybreak.credentials.keyring import Keyring
from daybreak.web.dashboard import cross_site, session_cookie
from daybreak.web.dashboard.forms import own_path

SID = "0c7f1c3e-8c39-4a4e-9c1d-6a4f0c1d2e3f"


def _random(count: int) -> bytes:
    return bytes((position * 37 + 11) % 251 for position in range(count))


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    import os

    path: Path = tmp_path_factory.mktemp("keys") / "keyring.json"
    return keyring.create(path, datetime(2026, 11, 22, tzinfo=UTC), os.urandom)


def _request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw, "query_string": b""})


def test_token_is_bound_and_cannot_be_altered(ring: Keyring) -> None:
    token = cross_site.form_token(SID, keyring=ring, random=_random)
    assert cross_site.token_is_good(token, SID, keyring=ring)
    assert not cross_site.token_is_good(token, "another", keyring=ring)
    assert not cross_site.token_is_good(None, SID, keyring=ring)
    for place in range(len(token)):
        altered = token[:place] + ("0" if token[place] != "0" else "1") + token[place + 1 :]
        assert not cross_site.token_is_good(altered, SID, keyring=ring)


def test_cookie_of_one_kind_is_none_of_another(ring: Keyring) -> None:
    sealed = session_cookie.seal(SID, kind="device", keyring=ring)
    assert session_cookie.unseal(sealed, kind="device", keyring=ring) == SID
    assert session_cookie.unseal(sealed, kind="session", keyring=ring) is None
    assert session_cookie.unseal(sealed + "0", kind="device", keyring=ring) is None
    assert session_cookie.unseal(None, kind="device", keyring=ring) is None


def test_cookie_is_read_when_there_is_exactly_one(ring: Keyring) -> None:
    sealed = session_cookie.seal(SID, kind="form", keyring=ring)
    mine = f"daybreak-form={sealed}"
    for cookie, payload in (
        (mine, SID),
        (f"a=b; {mine} ;c", SID),
        (f"{mine}; daybreak-form=other", None),
        (f"{mine}; {mine}", None),
        (f'daybreak-form="{sealed}"', None),
        ("daybreak-form", None),
        ("", None),
    ):
        found = session_cookie.read_cookie(_request(cookie=cookie), "form", secure=False, keyring=ring)
        assert found == payload, cookie


def test_cookie_has_the_host_prefix_on_https_alone() -> None:
    assert session_cookie.cookie_name("session", secure=True) == "__Host-daybreak-session"
    assert session_cookie.cookie_name("session", secure=False) == "daybreak-session"


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, True),
        ({"sec_fetch_site": "same-origin", "origin": "null"}, True),
        ({"sec_fetch_site": "same-origin", "origin": "https://data.example"}, True),
        ({"origin": "https://data.example"}, True),
        ({"origin": "null"}, False),
        ({"origin": "https://data.example.evil.example"}, False),
        ({"origin": "http://data.example"}, False),
        ({"sec_fetch_site": "same-site", "origin": "https://data.example"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"host": "evil.example", "origin": "https://evil.example"}, False),
    ],
)
def test_own_origin(headers: dict[str, str], own: bool) -> None:
    assert cross_site.from_own_page(_request(**headers), "https://data.example") is own


@given(st.text(max_size=60))
def test_next_is_an_own_path_or_nothing(text: str) -> None:
    for asked in (text, "/dashboard/" + text):
        found = own_path(asked, fallback="")
        assert found == "" or (found == asked and found.startswith("/dashboard/") and "//" not in found)
        assert not any(sign in found for sign in ("\\", "\r", "\n", "\t", " "))
