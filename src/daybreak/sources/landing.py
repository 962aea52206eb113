"""Rows that come over a connection land in tables of the embedded engine.

From there they are read as often as needed (fingerprints, lines, checks between resources) without
asking the platform twice. The tables are in the engine's memory; what is over its limit spills, packed,
to the temporary folder, which costs half of what a database file would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import duckdb

from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import SourceUnavailable
from daybreak.export.engine import ENGINE_TYPES, engine_faults, open_engine
from daybreak.export.lines import quoted


class ArrowStream(Protocol):
    """Anything that gives an Arrow C stream once."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Arrival = Callable[[], AbstractContextManager[ArrowStream]]
"""Opens one stream of a resource's rows; leaving the context closes its connection."""


class StreamBroken(SourceUnavailable):
    """A stream ended before its rows did; nothing of it is kept."""


class Landing:
    """An engine in memory; `land` fills one table per resource."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def cursor(self) -> Any:
        """A connection on the engine, for one thread; the caller closes it."""
        return self._connection.cursor()

    def land(self, resource: Resource, arrivals: Sequence[Arrival]) -> str:
        """Reads all streams side by side into one table; a SELECT over it.

        Either every stream came to its own end, or nothing is kept and its error is raised.
        """
        table = f"landed.{resource.name}"
        columns = ", ".join(f"{quoted(column.name)} {ENGINE_TYPES[column.type]}" for column in resource.columns)
        with self._connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {table} ({columns})")
        try:
            with ThreadPoolExecutor(max(len(arrivals), 1), thread_name_prefix="arrive") as pool:
                fillings = [
                    pool.submit(self._fill, resource, table, number, arrival) for number, arrival in enumerate(arrivals)
                ]
            for filling in fillings:
                filling.result()
        except BaseException:
            with self._connection.cursor() as cursor:
                cursor.execute(f"DROP TABLE {table}")
            raise
        return f"SELECT * FROM {table}"

    def _fill(self, resource: Resource, table: str, number: int, arrival: Arrival) -> None:
        name = f"arriving_{resource.name}_{number}"
        columns = ", ".join(
            f"CAST({quoted(column.name)} AS {ENGINE_TYPES[column.type]})" for column in resource.columns
        )
        with self._connection.cursor() as cursor, arrival() as stream:
            cursor.register(name, stream)
            try:
                with engine_faults(f"Resource {resource.name}"), _broken_streams(resource):
                    cursor.execute(f"INSERT INTO {table} SELECT {columns} FROM {name}")
            finally:
                cursor.unregister(name)


@contextmanager
def _broken_streams(resource: Resource) -> Iterator[None]:
    try:
        yield
    except duckdb.InvalidInputException as error:
        if "reading the stream" not in str(error):
            raise
        raise StreamBroken(f"Resource {resource.name}: {error}") from error


@contextmanager
def open_landing(*, memory_bytes: int, threads: int, temp_dir: Path) -> Iterator[Landing]:
    """An engine that touches what it spills to `temp_dir` and nothing else; all of it goes with the context."""
    connection = open_engine(memory_bytes=memory_bytes, threads=threads, temp_dir=temp_dir)
    try:
        connection.execute("CREATE SCHEMA landed")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield Landing(connection)
    finally:
        connection.close()
