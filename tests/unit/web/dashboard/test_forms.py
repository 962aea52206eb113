"""Parsing of forms, form tokens, and the origin of a form."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from daybreak.credentials.keyring import Keyring
from daybreak.web.dashboard.forms import create_form_token, is_same_origin, safe_redirect_path, verify_form_token


@given(st.text(max_size=60))
def test_redirect_stays_in_the_dashboard(text: str) -> None:
    for requested in (text, "/dashboard/" + text):
        path = safe_redirect_path(requested, fallback="")
        assert path == "" or (path == requested and path.startswith("/dashboard/") and "//" not in path)
        assert not any(character in path for character in ("\\", "\r", "\n", "\t", " "))


SID = "0c7f1c3e-8c39-4a4e-9c1d-6a4f0c1d2e3f"


def _random(count: int) -> bytes:
    return bytes((index * 37 + 11) % 251 for index in range(count))


def test_form_token_is_valid_for_its_binding_only(ring: Keyring) -> None:
    token = create_form_token(SID, keyring=ring, random=_random)
    assert verify_form_token(token, SID, keyring=ring)
    assert not verify_form_token(token, "another", keyring=ring)
    assert not verify_form_token(None, SID, keyring=ring)
    for index in range(len(token)):
        altered = token[:index] + ("0" if token[index] != "0" else "1") + token[index + 1 :]
        assert not verify_form_token(altered, SID, keyring=ring)


@pytest.mark.parametrize(
    ("headers", "same"),
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
def test_origin_check(post_with: Callable[..., Request], headers: dict[str, str], same: bool) -> None:
    assert is_same_origin(post_with(**headers), "https://data.example") is same
