"""Published files of one account as tables of an embedded engine with bounded memory."""

import gzip
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Self

import duckdb

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.key_sql import in_range
from daybreak.catalogue.resources import Resource, resource_named
from daybreak.catalogue.stored_columns import resource_with_header
from daybreak.domain.errors import FileDamaged, FileStoreError, first_line
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export.engine import error_reason, lock_engine, open_engine
from daybreak.export.sql import identifier, literal
from daybreak.filestore.file_store import FileStore

MEMORY_BYTES = 128_000_000
# Longest line of a file. The engine buffers one line, so that memory does not depend on the file.
_MAXIMUM_LINE_BYTES = 16 << 20
_MAXIMUM_HEADER_BYTES = 1 << 16
_COPY_BYTES = 1 << 20
# The fastest format first.
_FORMATS = ("parquet", "csv", "ndjson", "json")
_READERS = {
    "csv": "read_csv({path}, columns = {columns}, header = true, auto_detect = false, delim = ',', quote = '\"', "
    f"escape = '\"', compression = 'gzip', max_line_size = {_MAXIMUM_LINE_BYTES}, "
    f"buffer_size = {_MAXIMUM_LINE_BYTES})",
    "json": "read_json({path}, columns = {columns}, format = 'array', compression = 'gzip', "
    f"maximum_object_size = {_MAXIMUM_LINE_BYTES})",
    "ndjson": "read_json({path}, columns = {columns}, format = 'newline_delimited', compression = 'gzip', "
    f"maximum_object_size = {_MAXIMUM_LINE_BYTES})",
    "parquet": "read_parquet({path})",
}


class Interruption:
    """Ends the queries of a thread from another thread, once their result is no longer wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._engine: duckdb.DuckDBPyConnection | None = None

    def set(self) -> None:
        """End the query that runs, and refuse further ones."""
        with self._lock:
            self._is_set = True
            if self._engine is not None:
                self._engine.interrupt()

    def check(self) -> None:
        """Raise FileStoreError after `set`."""
        if self._is_set:
            raise FileStoreError("The request was canceled.")

    @contextmanager
    def of(self, engine: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Let `set` end the queries of an engine, until it is closed."""
        with self._lock:
            self._engine = engine
        try:
            yield
        finally:
            with self._lock:
                self._engine = None


class PublishedTables:
    """Queries over the published files of one account. Each resource is a table with the file's rows in their order.

    A text that is missing is empty, a number or truth value 0 or false. Only times can be NULL. One instance for one
    thread.
    """

    def __init__(
        self, engine: duckdb.DuckDBPyConnection, interruption: Interruption, entries: Sequence[ManifestEntry]
    ) -> None:
        self._engine = engine
        self._interruption = interruption
        self._rows = {entry.resource: entry.rows for entry in entries}

    @classmethod
    @contextmanager
    def open(
        cls,
        store: FileStore,
        entries: Sequence[ManifestEntry],
        interruption: Interruption | None = None,
        *,
        before: ManifestEntry | None = None,
    ) -> Iterator[Self]:
        """Open the files of these entries, in the format that is the fastest to read. `before` is an earlier file of a
        resource, as table `before`. Raises FileStoreError.
        """
        interruption = interruption or Interruption()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="daybreak-insight-")))
            engine = stack.enter_context(
                closing(open_engine(memory_bytes=MEMORY_BYTES, threads=1, temp_dir=folder / "spill"))
            )
            stack.enter_context(interruption.of(engine))
            # Queries rely on the order of the rows in the files.
            engine.execute("SET preserve_insertion_order = true")
            paths = []
            tables = [(entry.resource, entry) for entry in entries] + ([("before", before)] if before else [])
            for table, entry in tables:
                name = next(name for name in _FORMATS if name in entry.formats)
                copy = folder / f"{table}.{name}"
                path = _local_file(stack, store, entry.formats[name].key, copy, interruption)
                _create_view(engine, table, resource_named(entry.resource), name, path)
                paths.append(path)
            lock_engine(engine, paths)
            yield cls(engine, interruption, entries)

    def rows(self, query: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises FileStoreError if a file cannot be read, or after an interruption."""
        self._interruption.check()
        try:
            return self._engine.execute(query, parameters or {}).fetchall()
        except duckdb.Error as error:
            raise FileStoreError(f"Published files cannot be read: {error_reason(error)}") from error

    def check_rows(self, resource: str, rows: int) -> None:
        """Raise FileDamaged unless the file of a resource has as many rows as its manifest entry says."""
        if rows != self._rows[resource]:
            raise FileDamaged(f"The file of {resource} has {rows} rows instead of {self._rows[resource]}.")


def _create_view(
    engine: duckdb.DuckDBPyConnection, table: str, resource: Resource, format_name: str, path: Path
) -> None:
    """Create a table with the columns of today. A column that the file lacks has no values."""
    values = ", ".join(f"{_value(column)} AS {identifier(column.name)}" for column in resource.columns)
    try:
        names = _column_names(engine, resource, format_name, path)
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
        reader = _READERS[format_name].format(path=literal(str(path)), columns=f"{{{columns}}}")
        lacking = "".join(f", NULL AS {identifier(name)}" for name in resource.column_names if name not in names)
        engine.execute(f"CREATE VIEW {identifier(table)} AS SELECT {values} FROM (SELECT *{lacking} FROM {reader})")
    except (duckdb.Error, EOFError, OSError, zlib.error) as error:
        reason = error_reason(error) if isinstance(error, duckdb.Error) else first_line(error)
        raise FileStoreError(f"The file of {resource.name} cannot be read: {reason}") from error


def _column_names(
    engine: duckdb.DuckDBPyConnection, resource: Resource, format_name: str, path: Path
) -> tuple[str, ...]:
    match format_name:
        case "csv":
            with gzip.open(path) as file:
                return resource_with_header(resource, file.readline(_MAXIMUM_HEADER_BYTES)).column_names
        case "parquet":
            found = engine.execute(f"SELECT * FROM read_parquet({literal(str(path))}) LIMIT 0")
            return tuple(column[0] for column in found.description)
    return resource.column_names


def _value(column: Column) -> str:
    """Return SQL for the value of a column. Formats other than Parquet have texts in every column."""
    name = identifier(column.name)
    match column.type:
        case ColumnType.BIGINT:
            return f"coalesce(TRY_CAST({name} AS BIGINT), 0)"
        case ColumnType.BOOLEAN:
            return f"coalesce(TRY_CAST({name} AS BOOLEAN), false)"
        case ColumnType.DATE | ColumnType.TIMESTAMP:
            instant = f"TRY_CAST({name} AS TIMESTAMP)"
            # PostgreSQL has others, such as `infinity` and years BC.
            return f"CASE WHEN {in_range(instant, 'TIMESTAMP')} THEN {instant} END"
        case _:
            return f"coalesce(CAST({name} AS VARCHAR), '')"


def _local_file(stack: ExitStack, store: FileStore, key: str, copy: Path, interruption: Interruption) -> Path:
    """Return the path of a stored file: its own on local disk, else that of a temporary copy."""
    opened = store.open_local(key)
    if opened is not None:
        stack.enter_context(opened)
        return Path(str(opened.name))
    with copy.open("wb", buffering=_COPY_BYTES) as file:
        for piece in store.read(key):
            interruption.check()
            file.write(piece)
    return copy
