"""Undocumented behavior of DuckDB: sort-key layout, batch size of the Arrow stream, wording of errors.

pyproject.toml bounds DuckDB's minor version because of this module. `tests/unit/export/test_duckdb_internals.py` checks
each part separately, so that a failure names the part that a new version changed.
"""

from collections.abc import Iterable, Iterator

import duckdb
import nanoarrow
from nanoarrow.c_array import CArray

VECTOR_ROWS = 2048
"""Rows that the engine processes at a time, and the smallest batch of its Arrow stream."""

# ---------------------------------------------------------------- sort keys

_SORT_KEY_ORDER = "'ASC NULLS FIRST'"

_PACKED_CELLS = (
    ("CAST(NULL AS VARCHAR)", "01"),
    ("''", "02 00"),
    ("'a' || chr(0) || 'é'", "02 62 01 c4 aa 00"),
    ("CAST(NULL AS UUID)", "01"),
    ("UUID 'ff112233-4455-6677-8899-aabbccddeeff'", "02 ff112233445566778899aabbccddeeff"),
    ("UUID '00112233-4455-6677-8899-aabbccddeeff'", "02 00112233445566778899aabbccddeeff"),
    ("CAST(-2 AS BIGINT)", "02 7ffffffffffffffe"),
    ("CAST(258 AS BIGINT)", "02 8000000000000102"),
    ("CAST(NULL AS BIGINT)", "01"),
    ("true", "02 01"),
    ("false", "02 00"),
    ("CAST(NULL AS BOOLEAN)", "01"),
    ("DATE '1970-01-03'", "02 80000002"),
    ("DATE '1969-12-31'", "02 7fffffff"),
    ("TIMESTAMP '1970-01-01 00:00:00.000258'", "02 8000000000000102"),
    ("TIMESTAMP '1969-12-31 23:59:59.999999'", "02 7fffffffffffffff"),
    ("CAST(NULL AS TIMESTAMP)", "01"),
)
"""Cells and the bytes that line_encoder.c expects for them."""


def packed_row(cells: Iterable[str]) -> str:
    """Return SQL that packs expressions into one BLOB, the input of the line encoder. Different rows have different
    BLOBs.

    Sorting one BLOB takes half the time of sorting many columns, and less than half when the sort spills.
    """
    return f"create_sort_key({', '.join(f'{cell}, {_SORT_KEY_ORDER}' for cell in cells)})"


def sort_key_fault(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Return how the layout of packed rows differs from the one the line encoder reads, None when it does not."""
    expected = bytes.fromhex("".join(packed for _, packed in _PACKED_CELLS))
    try:
        found = connection.execute(f"SELECT {packed_row(cell for cell, _ in _PACKED_CELLS)}").fetchall()[0][0]
    except duckdb.Error as error:
        return f"create_sort_key failed: {error}"
    if found == expected:
        return None
    shown = found.hex(" ") if isinstance(found, bytes) else repr(found)
    return f"create_sort_key returned {shown} instead of {expected.hex(' ')}, as in DuckDB 2.0"


# ---------------------------------------------------------------- Arrow stream


def record_batches(relation: duckdb.DuckDBPyRelation, rows_per_batch: int) -> Iterator[CArray]:
    """Yield batches of about `rows_per_batch` rows as the engine produces them.

    The public Arrow stream has no batch size and always takes 131,072 rows, which exceeds the memory limit when rows
    are wide. This function requests the stream through DuckDB's internal API instead.
    """
    capsule = relation._submit("stream", rows_per_batch).arrow_capsule()  # noqa: SLF001
    yield from nanoarrow.c_array_stream(capsule)


# ---------------------------------------------------------------- errors


def is_temp_space_exhausted(error: duckdb.Error) -> bool:
    """Whether the engine had no disk space left to spill. It reports its own limit, nine tenths of the disk by default,
    as out of memory.
    """
    if isinstance(error, duckdb.OutOfMemoryException):
        return "max_temp_directory_size" in str(error)
    return isinstance(error, duckdb.IOException) and "No space left" in str(error)


def is_file_locked(error: duckdb.Error) -> bool:
    """Whether another process has the database file open for writing."""
    return isinstance(error, duckdb.IOException) and "lock" in str(error).lower()


def is_table_missing(error: duckdb.Error, table: str) -> bool:
    """Whether a query failed because the table does not exist."""
    return isinstance(error, duckdb.CatalogException) and f"name {table} does not exist" in str(error)


def is_stream_failure(error: duckdb.Error) -> bool:
    """Whether a registered Arrow stream failed while the engine read it."""
    return isinstance(error, duckdb.InvalidInputException) and "reading the stream" in str(error)
