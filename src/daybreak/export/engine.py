"""The embedded engine: opening, restrictions, and conversion of its errors."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from daybreak.catalogue.columns import ColumnType
from daybreak.domain.errors import OperatorError, RunError, SourceError, first_line, without_value
from daybreak.export.duckdb_internals import is_temp_space_exhausted
from daybreak.export.sql import literal

ENGINE_TYPES = {
    ColumnType.UUID: "UUID",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.BIGINT: "BIGINT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
}
"""The engine's type for each type of the catalogue."""


# Spilled rows are readable by their owner only. The umask of the process limits the files.
_PRIVATE_FOLDER = 0o700
# Share of the builder's memory for the engine. The rest is for text that is being compressed and written, and for
# Python and libraries, which take as much with a small limit as with a large one.
_ENGINE_MEMORY_SHARE = 0.37
_LIBRARY_BYTES = 180_000_000
# With less memory for each thread, grouping the rows of a large resource by Leader exceeds the limit.
_BYTES_PER_THREAD = 32_000_000
_SOURCE_COLUMN = re.compile(r" when casting from source column (\w+)$")
# The engine's own texts among those that a function of a view can write too. They may quote the path of a file, which
# is kept, and after these words a value.
_OWN_TEXT = re.compile(
    r"Invalid Input Error: (?:Malformed JSON at|Could not parse string|Type \w+ with value|JSON path error near"
    r"|No magic bytes|File '|Footer length|Failed to read|Invalid string encoding found in Parquet file)"
)
_QUOTED_VALUE = re.compile(r"\b(string|value|near|Input:) [\"'\d-].*")


def engine_memory_bytes(limit_bytes: int) -> int:
    """Return the memory limit of the engine in a builder with that limit."""
    return int(min(limit_bytes * _ENGINE_MEMORY_SHARE, (limit_bytes - _LIBRARY_BYTES) / 2))


def open_engine(*, memory_bytes: int, threads: int, temp_dir: Path) -> duckdb.DuckDBPyConnection:
    """Open an empty in-memory engine: UTC, bounded memory, spilling to `temp_dir`, no extension downloads. It has fewer
    threads than requested if the memory is too small for them.

    Raises OperatorError when the folder cannot be created.
    """
    try:
        temp_dir.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"Cannot create the folder {temp_dir} for temporary files: {error.strerror}. Set snapshot.temp_dir."
        ) from error
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_bytes // 1_000_000}MB",
            "threads": max(1, min(threads, memory_bytes // _BYTES_PER_THREAD)),
            "temp_directory": str(temp_dir),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": False,
        },
    )
    # GLOBAL, because cursors otherwise use the machine's time zone instead of their connection's.
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    return connection


def lock_engine(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path] = ()) -> None:
    """Restrict an engine to these files and its temporary folder. Afterwards no SQL can read another file, load an
    extension or change a setting.
    """
    if paths:
        allowed = ", ".join(literal(str(path)) for path in paths)
        connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def memory_bytes(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Return the memory limit of the connection's engine, and how much it uses, for stored tables for example."""
    used = "SELECT coalesce(sum(memory_usage_bytes), 0) FROM duckdb_memory()"
    query = f"SELECT parse_formatted_bytes(current_setting('memory_limit')), ({used})"
    limit, used_bytes = map(int, connection.execute(query).fetchall()[0])
    return limit, used_bytes


def temp_folder(connection: duckdb.DuckDBPyConnection) -> Path:
    """Return the folder for temporary files of the connection's engine."""
    return Path(connection.execute("SELECT current_setting('temp_directory')").fetchall()[0][0])


def error_reason(error: duckdb.Error) -> str:
    """Return the message of an error without values of rows, and the column that a value was cast from.

    A view of the source may put a value anywhere into an `Invalid Input Error`, with the function `error` for example.
    """
    line = first_line(error)
    if isinstance(error, duckdb.InvalidInputException):
        if _OWN_TEXT.match(line):
            return _QUOTED_VALUE.sub(r"\1 …", line)
        return "Invalid Input Error: …. The text may quote a row. Run the query in DuckDB to see it"
    if not isinstance(error, duckdb.DataError | duckdb.NotSupportedError):
        return line
    column = _SOURCE_COLUMN.search(line)
    return without_value(error) + (f" (column {column[1]})" if column else "")


@contextmanager
def engine_faults(subject: str) -> Iterator[None]:
    """Convert the engine's errors to SourceError and RunError. `subject` begins the message."""
    try:
        yield
    except duckdb.Error as error:
        reason = error_reason(error)
        if is_temp_space_exhausted(error):
            raise RunError(
                f"{subject}: no space left for temporary files. Free some, or set snapshot.temp_dir to a larger disk. "
                f"({reason})",
                code="disk_short",
            ) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise RunError(
                f"{subject}: the memory limit is too small for this source. Raise snapshot.memory_limit. ({reason})"
            ) from error
        raise SourceError(f"{subject} cannot be read: {reason}") from error
