"""Escaping of text that a spreadsheet would evaluate as a formula (OWASP, "CSV Injection").

The start of a cell is not the only place. Where the list separator is a semicolon, as in much of
Europe, a spreadsheet that opens a CSV file by double click splits lines at semicolons and ignores
quotes: text after a semicolon, tab or line break starts a new cell there.
"""

from __future__ import annotations

import re

_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
# Characters that spreadsheets skip before they look for a formula. A quote may open or close a cell.
_SKIPPED = '[\\x00-\\x08\\x0b\\x0c\\x0e-\\x20"\\x7f\\xa0\u200b-\u200f\u2060\ufeff]*'
_FORMULA_START = re.compile(rf"\A(?=[\t\r\n]|{_SKIPPED}[{_SIGNS}])|(?<=[;\t\r\n])(?={_SKIPPED}[{_SIGNS}])")


def escape_formulas(text: str) -> str:
    """Return the text with an apostrophe before each part that a spreadsheet would evaluate."""
    return _FORMULA_START.sub("'", text)
