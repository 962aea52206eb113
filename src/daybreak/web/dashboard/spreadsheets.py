"""CSV files for spreadsheets, in which no text is evaluated as a formula (OWASP, "CSV Injection").

The start of a cell is not the only place. Where the list separator is a semicolon, as in much of
Europe, a spreadsheet that opens a CSV file by double click splits lines at semicolons and ignores
quotes: text after a semicolon, tab or line break starts a new cell there.
"""

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

CSV_MEDIA_TYPE = "text/csv; charset=utf-8; header=present"
_PIECE_CHARACTERS = 256 * 1024
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
# Characters that spreadsheets skip before they look for a formula. A quote may open or close a cell.
_SKIPPED = '[\\x00-\\x08\\x0b\\x0c\\x0e-\\x20"\\x7f\\xa0\u200b-\u200f\u2060\ufeff]*'
_FORMULA_START = re.compile(rf"\A(?=[\t\r\n]|{_SKIPPED}[{_SIGNS}])|(?<=[;\t\r\n])(?={_SKIPPED}[{_SIGNS}])")


def escape_formulas(text: str) -> str:
    """Return the text with an apostrophe before each part that a spreadsheet would evaluate."""
    return _FORMULA_START.sub("'", text)


def spreadsheet_csv(rows: Iterable[Sequence[str]], *, text_columns: Collection[int] | None = None) -> Iterator[bytes]:
    """Yield a CSV file in pieces. Formulas in text are escaped: in all columns, or in those listed.

    It starts with a byte-order mark and has CRLF line ends, as spreadsheets expect. Every cell is quoted, because some
    spreadsheets also split lines at semicolons and tabs.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    buffer.write("\ufeff")
    for row in rows:
        writer.writerow(
            escape_formulas(cell) if text_columns is None or index in text_columns else cell
            for index, cell in enumerate(row)
        )
        if buffer.tell() >= _PIECE_CHARACTERS:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()
