"""Text form of values on pages."""

from datetime import UTC, datetime, timedelta

from daybreak.web.dashboard import formatting


def test_unknown_values_are_a_dash() -> None:
    assert formatting.format_size(None) == formatting.format_duration(None) == "\N{EN DASH}"


def test_control_characters_become_visible() -> None:
    assert formatting.make_visible("a\x00b\u202ec\nd\u061c\x85") == "a\u2400b\ufffdc\u240ad\ufffd\ufffd"


def test_name_is_one_line_without_control_characters() -> None:
    assert formatting.format_name("Los Angeles\r\nTenants\u2019\tUnion") == "Los Angeles Tenants\u2019 Union"
    assert formatting.format_name("a\x00b\u202ec") == "a\u2400b\ufffdc"


def test_user_agent_is_shortened() -> None:
    chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
    assert formatting.format_user_agent(chrome) == "Chrome on Linux"
    assert formatting.format_user_agent("curl/8.14.1") == "curl/8.14.1"
    assert formatting.format_user_agent("") == "Unknown client"


def test_lines_keep_their_breaks() -> None:
    assert formatting.make_lines_visible("first\nsecond\x1b\r\n\n") == "first\nsecond\u241b"


def test_age_is_in_words() -> None:
    now = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert formatting.format_age(now - timedelta(hours=38), now) == "38 h old"
    assert formatting.format_age(now - timedelta(days=2), now) == "2 days old"
    assert formatting.format_age(now, now) == "new"
