"""Redirect targets in forms and URLs."""

from hypothesis import given
from hypothesis import strategies as st

from daybreak.web.dashboard.forms import safe_redirect_path


@given(st.text(max_size=60))
def test_redirect_stays_in_the_dashboard(text: str) -> None:
    for requested in (text, "/dashboard/" + text):
        path = safe_redirect_path(requested, fallback="")
        assert path == "" or (path == requested and path.startswith("/dashboard/") and "//" not in path)
        assert not any(character in path for character in ("\\", "\r", "\n", "\t", " "))
