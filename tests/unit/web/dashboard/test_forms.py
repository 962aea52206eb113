"""The path that a form continues to, and the origin of a form."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from daybreak.web.dashboard.forms import is_same_origin, safe_redirect_path


@given(st.text(max_size=60))
def test_redirect_stays_in_the_dashboard(text: str) -> None:
    for requested in (text, "/dashboard/" + text):
        path = safe_redirect_path(requested, fallback="")
        assert path == "" or (path == requested and path.startswith("/dashboard/") and "//" not in path)
        assert not any(character in path for character in ("\\", "\r", "\n", "\t", " "))


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
