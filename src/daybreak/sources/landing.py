"""Rows that come over a connection land in tables of the embedded engine.

From there they are read as often as needed (fingerprints, lines, checks between resources) without
asking the platform twice. The tables are in the engine's memory; what is over its limit spills, packed,
to the temporary folder, which costs half of what a database file would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import duckdb
import nanoarrow
from nanoarrow.c_array import CArray
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.c_schema import CSchema

from daybreak.catalogue.columns import Column
from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import RunError, SourceUnavailable
from daybreak.export.engine import ENGINE_TYPES, engine_faults, open_engine
from daybreak.export.lines import quoted

_PORTION_BYTES = 8 << 20
_VECTOR_ROWS = 2048
_STOP_AGAIN_SECONDS = 1.0
_WIDE_PART = 16
"""Of the engine's memory: so much of wide rows in a table."""


class ArrowStream(Protocol):
    """Anything that gives an Arrow C stream once."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Arrival = Callable[[], AbstractContextManager[ArrowStream]]
"""Opens one stream of a resource's rows; leaving the context closes its connection."""


Mending = Callable[[Column, str], str]
"""The engine's SQL for what a column means, from the SQL for its value as it came."""


class StreamBroken(SourceUnavailable):
    """A stream ended before its rows did; nothing of it is kept. Who opened it may know the server's code for why."""

    sqlstate: str | None = None


class Landing:
    """An engine in memory; `land` puts a resource's rows into tables of it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, wide_bytes: int, mended: Mending) -> None:
        self._connection = connection
        self._wide_bytes = wide_bytes
        self._mended = mended
        self._naming = Lock()

    def cursor(self) -> Any:
        """A connection on the engine, for one thread; the caller closes it."""
        return self._connection.cursor()

    def land(
        self,
        resource: Resource,
        arrivals: Sequence[Arrival],
        *,
        repeatable: bool = False,
        stop: Callable[[], None] = lambda: None,
    ) -> str:
        """Reads all streams side by side; a SELECT over their rows.

        Either every stream came to its own end, or nothing is kept and the error of the first that did not is
        raised; `stop` is called to end the others sooner. `repeatable` arrivals are opened once more when the rows
        are too wide for the engine's memory, and then land in small portions: the engine takes 2,048 rows at a
        time, whatever their width, so a table gets no more than fit.
        """
        try:
            return self._land(resource, arrivals, self._fill, stop)
        except RunError as error:
            if not repeatable or not isinstance(error.__cause__, duckdb.OutOfMemoryException):
                raise
        return self._land(resource, arrivals, self._fill_in_portions, stop)

    def _land(
        self,
        resource: Resource,
        arrivals: Sequence[Arrival],
        fill: Callable[[Resource, Arrival, list[str]], None],
        stop: Callable[[], None],
    ) -> str:
        tables: list[str] = []
        try:
            with ThreadPoolExecutor(max(len(arrivals), 1), thread_name_prefix="arrive") as pool:
                _all_or_first_error([pool.submit(fill, resource, arrival, tables) for arrival in arrivals], stop)
        except BaseException:
            with self._connection.cursor() as cursor:
                for table in tables:
                    cursor.execute(f"DROP TABLE {table}")
            raise
        if not tables:
            self._new_table(resource, tables)
        return " UNION ALL ".join(f"SELECT * FROM {table}" for table in tables)

    def _new_table(self, resource: Resource, tables: list[str]) -> str:
        columns = ", ".join(f"{quoted(column.name)} {ENGINE_TYPES[column.type]}" for column in resource.columns)
        with self._naming, self._connection.cursor() as cursor:
            table = f"landed.{resource.name}_{len(tables)}"
            cursor.execute(f"CREATE TABLE {table} ({columns})")
            tables.append(table)
        return table

    def _fill(self, resource: Resource, arrival: Arrival, tables: list[str]) -> None:
        """One table and one statement for the whole stream: the fastest way."""
        table = self._new_table(resource, tables)
        with self._connection.cursor() as cursor, arrival() as stream:
            self._insert(cursor, resource, table, stream)

    def _fill_in_portions(self, resource: Resource, arrival: Arrival, tables: list[str]) -> None:
        """A statement for a few batches, and another table before wide rows would be too many in one."""
        table, filled_bytes = self._new_table(resource, tables), 0
        with self._connection.cursor() as cursor, arrival() as stream:
            for portion in _portions(nanoarrow.c_array_stream(stream), resource):
                wide = portion.size_bytes * _VECTOR_ROWS > portion.rows * self._wide_bytes
                if wide and filled_bytes and filled_bytes + portion.size_bytes > self._wide_bytes:
                    table, filled_bytes = self._new_table(resource, tables), 0
                self._insert(cursor, resource, table, portion)
                filled_bytes += portion.size_bytes

    def _insert(self, cursor: Any, resource: Resource, table: str, stream: ArrowStream) -> None:
        columns = ", ".join(
            self._mended(column, f"CAST({quoted(column.name)} AS {ENGINE_TYPES[column.type]})")
            for column in resource.columns
        )
        with engine_faults(f"Resource {resource.name}"):
            cursor.register("arriving", stream)
            try:
                cursor.execute(f"INSERT INTO {table} SELECT {columns} FROM arriving")
            except duckdb.InvalidInputException as error:
                if "reading the stream" not in str(error):
                    raise
                raise _broken(resource, error) from error
            finally:
                cursor.unregister("arriving")


def _all_or_first_error(fillings: Sequence[Future[None]], stop: Callable[[], None]) -> None:
    """Waits for all; raises the error of the one that failed first, whatever the others said when they were stopped."""
    done, running = wait(fillings, return_when=FIRST_EXCEPTION)
    first = next((error for filling in done if (error := filling.exception()) is not None), None)
    while running:
        # Again, as a stream may just have been about to begin.
        stop()
        running = wait(running, _STOP_AGAIN_SECONDS).not_done
    if first is not None:
        raise first


@dataclass(frozen=True, slots=True)
class _Portion:
    """Neighbouring batches of a stream; an Arrow stream as often as it is asked for."""

    schema: CSchema
    batches: list[CArray]
    rows: int
    size_bytes: int

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return CArrayStream.from_c_arrays(self.batches, self.schema, validate=False).__arrow_c_stream__()


def _portions(batches: CArrayStream, resource: Resource) -> Iterator[_Portion]:
    schema = batches.get_schema()
    held: list[CArray] = []
    rows = size = 0
    while (batch := _next_of(batches, resource)) is not None:
        held.append(batch)
        rows += len(batch)
        size += _size_bytes(batch)
        if size >= _PORTION_BYTES:
            yield _Portion(schema, held, rows, size)
            held, rows, size = [], 0, 0
    if rows:
        yield _Portion(schema, held, rows, size)


def _size_bytes(batch: CArray) -> int:
    view = batch.view()
    columns = [view.child(number) for number in range(view.n_children)]
    return sum(column.buffer(number).size_bytes for column in columns for number in range(column.n_buffers))


def _next_of(batches: Iterator[CArray], resource: Resource) -> CArray | None:
    try:
        return next(batches, None)
    except RuntimeError as error:
        raise _broken(resource, error) from error


def _broken(resource: Resource, error: Exception) -> StreamBroken:
    """What the server said, without what each layer put around it."""
    return StreamBroken(f"Resource {resource.name}: {str(error).strip().rpartition(']: ')[2]}")


def _as_it_came(_column: Column, value: str) -> str:
    return value


@contextmanager
def open_landing(
    *, memory_bytes: int, threads: int, temp_dir: Path, mended: Mending = _as_it_came
) -> Iterator[Landing]:
    """An engine that touches what it spills to `temp_dir` and nothing else; all of it goes with the context. `mended`
    undoes what a driver does to values.
    """
    connection = open_engine(memory_bytes=memory_bytes, threads=threads, temp_dir=temp_dir)
    try:
        connection.execute("CREATE SCHEMA landed")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield Landing(connection, wide_bytes=memory_bytes // _WIDE_PART, mended=mended)
    finally:
        connection.close()
