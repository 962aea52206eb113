"""CSV files as DuckDB reads them."""

from __future__ import annotations

from collections.abc import Mapping

# An empty cell is NULL and a quoted empty one is text. Values may contain any character, and be long.
MAX_ROW_BYTES = 16 << 20
_CSV_OPTIONS = (
    "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', new_line = '\\n', nullstr = '', "
    f"allow_quoted_nulls = false, max_line_size = {MAX_ROW_BYTES}, buffer_size = 67108864, compression = 'gzip'"
)


def read_csv(columns: Mapping[str, str]) -> str:
    """Return SQL that reads a gzip CSV file, whose path is a parameter."""
    types = ", ".join(f"{_literal(name)}: {_literal(data_type)}" for name, data_type in columns.items())
    return f"read_csv(?, {_CSV_OPTIONS}, columns = {{{types}}})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
