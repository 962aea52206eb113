"""The embedded engine: how it is opened, and what its faults mean to an operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from daybreak.catalogue.columns import ColumnType
from daybreak.domain.errors import OperatorError, RunError, SourceError

ENGINE_TYPES = {
    ColumnType.UUID: "UUID",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.BIGINT: "BIGINT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
}
"""The engine's type for each of ours."""


def open_engine(*, memory_bytes: int, threads: int, temp_dir: Path) -> duckdb.DuckDBPyConnection:
    """An empty engine in memory: UTC, bounded memory, spilling to `temp_dir`, no downloads.

    Raises OperatorError when the folder cannot be made.
    """
    try:
        temp_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"Nothing can be spilled in {temp_dir}: {error.strerror}. Set snapshot.temp_dir to a folder."
        ) from error
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_bytes // 1_000_000}MB",
            "threads": threads,
            "temp_directory": str(temp_dir),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": False,
        },
    )
    # Of the whole engine: cursors, which do the work, take the machine's zone instead of the connection's.
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    return connection


def engine_version() -> str:
    """The engine's own name for its version."""
    return f"v{duckdb.__version__}"


def engine_memory_bytes(cursor: duckdb.DuckDBPyConnection) -> int:
    """What the cursor's engine may hold."""
    return int(cursor.execute("SELECT parse_formatted_bytes(current_setting('memory_limit'))").fetchall()[0][0])


@contextmanager
def engine_faults(what: str) -> Iterator[None]:
    """Turns the engine's errors into ours; `what` begins the message."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        # The engine calls it the same when it may put no more aside: by itself nine tenths of what the disk has.
        if "max_temp_directory_size" in str(error):
            raise _no_room(what, error) from error
        raise RunError(
            f"{what}: the memory limit is too small for this source, raise snapshot.memory_limit. ({first_line(error)})"
        ) from error
    except duckdb.IOException as error:
        if "No space left" in str(error):
            raise _no_room(what, error) from error
        raise SourceError(f"{what} cannot be read: {first_line(error)}") from error
    except duckdb.Error as error:
        raise SourceError(f"{what} cannot be read: {first_line(error)}") from error


def _no_room(what: str, error: Exception) -> RunError:
    return RunError(
        f"{what}: no space left for temporary files, make room or set snapshot.temp_dir to a larger disk. "
        f"({first_line(error)})",
        code="disk_short",
    )


def first_line(error: Exception) -> str:
    """What the engine says, without the hints that follow."""
    return str(error).splitlines()[0]
