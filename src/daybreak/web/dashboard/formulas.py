"""Text that a spreadsheet would run as a formula, made plain (OWASP, CSV Injection).

Not only a cell's own start counts. Where the list separator is a semicolon, as in much of Europe, a spreadsheet that
opens a file by a double click parts it at semicolons and knows no quotes within a line: what follows a semicolon, a tab
or a line break in a cell begins a cell there.
"""

from __future__ import annotations

import re

_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
# What programs skip or drop before they look whether something is a formula; a quote may open or close a cell.
_SKIPPED = '[\\x00-\\x08\\x0b\\x0c\\x0e-\\x20"\\x7f\\xa0\u200b-\u200f\u2060\ufeff]*'
_BEGINNING = re.compile(rf"\A(?=[\t\r\n]|{_SKIPPED}[{_SIGNS}])|(?<=[;\t\r\n])(?={_SKIPPED}[{_SIGNS}])")


def disarmed(text: str) -> str:
    """The text with an apostrophe before everything in it that could be run; unchanged when there is none."""
    return _BEGINNING.sub("'", text)
