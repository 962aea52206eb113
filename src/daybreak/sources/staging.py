"""Staging tables: rows that are received over a connection are stored in tables of the embedded engine.

The export reads them several times (fingerprints, lines, referential checks) but queries the platform only once. The
tables are in memory. Data beyond the engine's memory limit spills to the temporary folder, compressed, which takes half
the space of a database file.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

import duckdb
import nanoarrow
from nanoarrow.c_array import CArray
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.c_schema import CSchema

from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import RunError, SourceUnavailable
from daybreak.export.duckdb_internals import VECTOR_ROWS, is_stream_failure
from daybreak.export.engine import ENGINE_TYPES, engine_faults, lock_engine, open_engine
from daybreak.export.sql import identifier

_INSERT_BYTES = 8 << 20
_STOP_INTERVAL_SECONDS = 1.0
_WIDE_TABLE_SHARE = 16
"""Divisor of the engine's memory: the maximum size of a table with wide rows."""


class ArrowStream(Protocol):
    """An object that exports an Arrow C stream, once."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


OpenStream = Callable[[], AbstractContextManager[ArrowStream]]
"""Opens a stream of a resource's rows. Leaving the context closes its connection."""


class StreamFailed(SourceUnavailable):
    """A stream ended with an error. None of its rows are stored. The connection that opened it sets `sqlstate`."""

    sqlstate: str | None = None


class StagingTables:
    """Staging tables of one reading, in a dedicated engine. They are dropped when the engine closes."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, wide_table_bytes: int) -> None:
        self._connection = connection
        self._wide_table_bytes = wide_table_bytes
        self._create_lock = Lock()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Open a connection to the engine, for one thread. The caller closes it."""
        return self._connection.cursor()

    def load(
        self,
        resource: Resource,
        streams: Sequence[OpenStream],
        *,
        repeatable: bool = False,
        stop: Callable[[], None] = lambda: None,
    ) -> str:
        """Store the rows of all streams, read in parallel. Return a SELECT over them.

        If a stream fails, no row is stored, `stop` is called to end the other streams early, and the first error is
        raised. `repeatable` streams are opened again if the rows are too wide for the engine's memory, and then
        inserted in small parts. The engine processes 2,048 rows at a time regardless of their width, so the tables of
        wide rows are small.
        """
        try:
            return self._load(resource, streams, self._insert_stream, stop)
        except RunError as error:
            if not repeatable or not isinstance(error.__cause__, duckdb.OutOfMemoryException):
                raise
        return self._load(resource, streams, self._insert_parts, stop)

    def _load(
        self,
        resource: Resource,
        streams: Sequence[OpenStream],
        insert: Callable[[Resource, OpenStream, list[str]], None],
        stop: Callable[[], None],
    ) -> str:
        tables: list[str] = []
        try:
            with ThreadPoolExecutor(max(len(streams), 1), thread_name_prefix="staging") as executor:
                _wait_for_all([executor.submit(insert, resource, stream, tables) for stream in streams], stop)
        except BaseException:
            with self._connection.cursor() as cursor:
                for table in tables:
                    cursor.execute(f"DROP TABLE {table}")
            raise
        if not tables:
            self._create_table(resource, tables)
        return " UNION ALL ".join(f"SELECT * FROM {table}" for table in tables)

    def _create_table(self, resource: Resource, tables: list[str]) -> str:
        columns = ", ".join(f"{identifier(column.name)} {ENGINE_TYPES[column.type]}" for column in resource.columns)
        with self._create_lock, self._connection.cursor() as cursor:
            table = f"staging.{resource.name}_{len(tables)}"
            cursor.execute(f"CREATE TABLE {table} ({columns})")
            tables.append(table)
        return table

    def _insert_stream(self, resource: Resource, open_stream: OpenStream, tables: list[str]) -> None:
        """Insert the whole stream into one table with one statement, which is the fastest way."""
        table = self._create_table(resource, tables)
        with self._connection.cursor() as cursor, open_stream() as stream:
            self._insert(cursor, resource, table, stream)

    def _insert_parts(self, resource: Resource, open_stream: OpenStream, tables: list[str]) -> None:
        """Insert a few batches per statement, and create another table when one is full of wide rows."""
        table, filled_bytes = self._create_table(resource, tables), 0
        with self._connection.cursor() as cursor, open_stream() as stream:
            for part in _parts(nanoarrow.c_array_stream(stream), resource):
                is_wide = part.size_bytes * VECTOR_ROWS > part.rows * self._wide_table_bytes
                if is_wide and filled_bytes and filled_bytes + part.size_bytes > self._wide_table_bytes:
                    table, filled_bytes = self._create_table(resource, tables), 0
                self._insert(cursor, resource, table, part)
                filled_bytes += part.size_bytes

    def _insert(self, cursor: duckdb.DuckDBPyConnection, resource: Resource, table: str, stream: ArrowStream) -> None:
        columns = ", ".join(
            f"CAST({identifier(column.name)} AS {ENGINE_TYPES[column.type]})" for column in resource.columns
        )
        with engine_faults(f"Resource {resource.name}"):
            cursor.register("incoming", stream)
            try:
                cursor.execute(f"INSERT INTO {table} SELECT {columns} FROM incoming")
            except duckdb.Error as error:
                if not is_stream_failure(error):
                    raise
                raise _stream_failed(resource, error) from error
            finally:
                cursor.unregister("incoming")


def _wait_for_all(inserts: Sequence[Future[None]], stop: Callable[[], None]) -> None:
    """Wait for all inserts. Raises the first error, and ignores the errors of the inserts that were stopped."""
    done, running = wait(inserts, return_when=FIRST_EXCEPTION)
    first = next((error for insert in done if (error := insert.exception()) is not None), None)
    while running:
        # Called repeatedly, because a stream may not have started yet.
        stop()
        running = wait(running, _STOP_INTERVAL_SECONDS).not_done
    if first is not None:
        raise first


@dataclass(frozen=True, slots=True)
class _Part:
    """Neighboring batches of a stream, as an Arrow stream that can be read repeatedly."""

    schema: CSchema
    batches: list[CArray]
    rows: int
    size_bytes: int

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return CArrayStream.from_c_arrays(self.batches, self.schema, validate=False).__arrow_c_stream__()


def _parts(batches: CArrayStream, resource: Resource) -> Iterator[_Part]:
    schema = batches.get_schema()
    pending: list[CArray] = []
    rows = size_bytes = 0
    while (batch := _next_batch(batches, resource)) is not None:
        pending.append(batch)
        rows += len(batch)
        size_bytes += _size_bytes(batch)
        if size_bytes >= _INSERT_BYTES:
            yield _Part(schema, pending, rows, size_bytes)
            pending, rows, size_bytes = [], 0, 0
    if rows:
        yield _Part(schema, pending, rows, size_bytes)


def _size_bytes(batch: CArray) -> int:
    view = batch.view()
    columns = [view.child(number) for number in range(view.n_children)]
    return sum(column.buffer(number).size_bytes for column in columns for number in range(column.n_buffers))


def _next_batch(batches: Iterator[CArray], resource: Resource) -> CArray | None:
    try:
        return next(batches, None)
    except RuntimeError as error:
        raise _stream_failed(resource, error) from error


def _stream_failed(resource: Resource, error: Exception) -> StreamFailed:
    """Return an error with the server's message, without the prefixes of the driver and the engine."""
    return StreamFailed(f"Resource {resource.name}: {str(error).strip().rpartition(']: ')[2]}")


@contextmanager
def open_staging(*, memory_bytes: int, threads: int, temp_dir: Path) -> Iterator[StagingTables]:
    """Open staging tables in an engine that can access only `temp_dir`."""
    with closing(open_engine(memory_bytes=memory_bytes, threads=threads, temp_dir=temp_dir)) as connection:
        connection.execute("CREATE SCHEMA staging")
        lock_engine(connection)
        yield StagingTables(connection, wide_table_bytes=memory_bytes // _WIDE_TABLE_SHARE)
