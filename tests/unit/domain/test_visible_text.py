"""Texts that one person chooses and another reads."""

import unicodedata

import pytest

from daybreak.access.names import normalize_name
from daybreak.domain.errors import InvalidRequest
from daybreak.domain.visible_text import HIDDEN_CHARACTERS
from daybreak.web.dashboard.formatting import make_visible

# Joiners.
SHAPING = {"\u200c", "\u200d"}


def test_every_control_and_format_character_is_hidden() -> None:
    # Format characters that are drawn, such as the signs around numbers in Arabic, are visible.
    invisible = [chr(code) for code in range(0x3000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
    drawn = {
        "\u0600",
        "\u0601",
        "\u0602",
        "\u0603",
        "\u0604",
        "\u0605",
        "\u06dd",
        "\u070f",
        "\u0890",
        "\u0891",
        "\u08e2",
    }
    assert {each for each in invisible if not HIDDEN_CHARACTERS.search(each)} == SHAPING | drawn


@pytest.mark.parametrize("name", ["nightly\u200b", "night\xadly", "\ufeffnightly", "\u200d", "\ufe0f", " "])
def test_name_with_invisible_characters_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="hidden"):
        normalize_name(name, subject="A name")


@pytest.mark.parametrize(
    "name", ["\u0646\u0627\u0645\u0647\u200c\u0647\u0627", "\U0001f469\u200d\U0001f680 r\xf6ket \u2602\ufe0f"]
)
def test_joined_characters_are_visible(name: str) -> None:
    assert normalize_name(name, subject="A name") == make_visible(name) == name


def test_pages_show_invisible_characters() -> None:
    assert make_visible("night\u200bly\U000e0041") == "night\N{REPLACEMENT CHARACTER}ly\N{REPLACEMENT CHARACTER}"
