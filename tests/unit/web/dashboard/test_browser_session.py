"""Signed cookies."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from daybreak.credentials import signed_text
from daybreak.credentials.keyring import Keyring
from daybreak.web.dashboard.browser_session import cookie_name, cookie_value

SID = "0c7f1c3e-8c39-4a4e-9c1d-6a4f0c1d2e3f"


def signed(payload: str, kind: str, ring: Keyring) -> str:
    return signed_text.sign(payload, kind, purpose="dashboard-cookie", keyring=ring)


def payload_of(value: str | None, kind: str, ring: Keyring) -> str | None:
    return signed_text.verify(value or "", kind, purpose="dashboard-cookie", keyring=ring)


def test_cookie_is_valid_for_its_kind_only(ring: Keyring) -> None:
    value = signed(SID, "device", ring)
    assert payload_of(value, "device", ring) == SID
    assert payload_of(value, "session", ring) is None
    assert payload_of(value + "0", "device", ring) is None
    assert payload_of(None, "device", ring) is None


def test_cookie_is_read_if_sent_exactly_once(ring: Keyring, post_with: Callable[..., Request]) -> None:
    value = signed(SID, "form", ring)
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
        found = payload_of(cookie_value(post_with(cookie=cookie), "form", secure=False), "form", ring)
        assert found == payload, cookie


def test_cookie_has_the_host_prefix_over_https_only() -> None:
    assert cookie_name("session", secure=True) == "__Host-daybreak-session"
    assert cookie_name("session", secure=False) == "daybreak-session"


PAYLOADS = st.text("0123456789abcdef-", min_size=16, max_size=64)
OTHER_COOKIES = st.text(st.characters(codec="ascii", exclude_characters=";\r\n"), max_size=20).filter(
    lambda text: "daybreak-form" not in text
)


@given(PAYLOADS, st.sampled_from(["session", "form", "device"]), st.data())
def test_any_changed_cookie_is_refused(ring: Keyring, payload: str, kind: str, data: st.DataObject) -> None:
    value = signed(payload, kind, ring)
    assert payload_of(value, kind, ring) == payload
    at = data.draw(st.integers(0, len(value)))
    piece = data.draw(st.characters() | st.sampled_from([*"0123456789abcdef-.", ""]))
    changed = value[:at] + piece + value[at + data.draw(st.integers(0, 1)) :]
    if changed != value:
        assert payload_of(changed, kind, ring) is None
    other = data.draw(st.sampled_from([other for other in ("session", "form", "device") if other != kind]))
    assert payload_of(value, other, ring) is None


@given(st.text(max_size=150) | st.from_regex(r"\A[0-9a-f]{4}\.[0-9a-f-]{36}\.[0-9a-f]{64}\Z"))
def test_any_other_text_is_not_a_cookie(ring: Keyring, text: str) -> None:
    assert payload_of(text, "session", ring) is None


@given(st.lists(OTHER_COOKIES, max_size=4), st.integers(0, 3), st.integers(0, 4))
def test_any_other_cookies_leave_the_value(
    ring: Keyring, post_with: Callable[..., Request], others: list[str], copies: int, at: int
) -> None:
    value = signed(SID, "form", ring)
    cookies = [*others[:at], *[f"daybreak-form={value}"] * copies, *others[at:]]
    found = payload_of(cookie_value(post_with(cookie=";".join(cookies)), "form", secure=False), "form", ring)
    assert found == (SID if copies == 1 else None)
