"""A row in one value: what the engine sorts, hashes and hands on in place of its cells.

One BLOB costs half of what many columns do in a sort, all the more where it spills.
"""

from __future__ import annotations

from collections.abc import Iterable

from daybreak.catalogue.columns import ColumnType

_ORDER = "'ASC NULLS FIRST'"
MARK_BYTES = 1
"""What every cell takes, NULL or not."""
VALUE_BYTES = {
    ColumnType.TEXT: 1,
    ColumnType.UUID: 16,
    ColumnType.BIGINT: 8,
    ColumnType.BOOLEAN: 1,
    ColumnType.DATE: 4,
    ColumnType.TIMESTAMP: 8,
}
"""What a cell that is not NULL takes besides its mark; a text has its end, and its own bytes on top."""


def packed(cells: Iterable[str]) -> str:
    """SQL that packs these expressions in one BLOB, what line_encoder.c takes: no two different rows give the same."""
    return f"create_sort_key({', '.join(f'{cell}, {_ORDER}' for cell in cells)})"
