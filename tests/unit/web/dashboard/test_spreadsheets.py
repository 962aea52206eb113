"""Formula escaping at each position where a spreadsheet starts a cell."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.web.dashboard.spreadsheets import escape_formulas

SIGNS = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
PARTS = [
    "=1+1",
    "+1555",
    "-2",
    "@x",
    "\uff1d1",
    '"',
    "'",
    ",",
    ";",
    "\t",
    "\r\n",
    "\n",
    "\r",
    " ",
    "\x00",
    "\ufeff",
    "a",
    "\u202e",
]
TEXTS = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=3)), max_size=8).map("".join)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("=1+1", "'=1+1"),
        (" =1+1", "' =1+1"),
        ("\x00=1+1", "'\x00=1+1"),
        ("\ufeff@x", "'\ufeff@x"),
        ("Ana;=cmd|' /C calc'!A0", "Ana;'=cmd|' /C calc'!A0"),
        ('Ana;"=1+1;', "Ana;'\"=1+1;"),
        ("Ana\n=1+1", "Ana\n'=1+1"),
        ("\ta", "'\ta"),
        ("1+1=2, a-b; c @ d", "1+1=2, a-b; c @ d"),
        ("", ""),
    ],
)
def test_formula_gets_an_apostrophe(text: str, escaped: str) -> None:
    assert escape_formulas(text) == escaped


def _written(text: str) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerow(["id", escape_formulas(text), "end"])
    return out.getvalue()


@given(TEXTS)
def test_no_cell_starts_with_a_formula_for_any_separator(text: str) -> None:
    written = _written(text)
    for separator in ",;\t":
        rows = list(csv.reader(io.StringIO(written, newline=""), delimiter=separator))
        assert not [cell for row in rows for cell in row if cell.startswith(SIGNS)]
    for cell in re.split(r"[;\t\r\n]", written):
        # As read by programs that ignore quotes within a line.
        assert not cell.lstrip(' \x00"\ufeff').startswith(SIGNS), cell


@given(TEXTS)
def test_only_apostrophes_are_added(text: str) -> None:
    escaped = iter(escape_formulas(text))
    unchanged = [letter for letter in text if next(escaped) == letter or next(escaped) == letter]
    assert "".join(unchanged) == text
    assert escape_formulas(escape_formulas(text)).replace("'", "") == text.replace("'", "")
