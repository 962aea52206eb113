"""Parquet files, typed and zstd-compressed: one per Leader, written by an engine of its own.

A file costs some milliseconds where a text file costs a fraction of one, and the rows are kept
aside in order first; so this format is made only where it is configured. The writing engine has
one thread, so that row groups fall the same way every time.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.domain.snapshot import StoredFormat
from daybreak.export.engine import ENGINE_TYPES, open_engine
from daybreak.export.lines import literal, quoted
from daybreak.export.survey import LeaderRows
from daybreak.ports.files import FileSink

PARQUET = "parquet"
_PIECE_BYTES = 1 << 20
_WRITER_BYTES = 128_000_000


@dataclass(frozen=True, slots=True)
class _Rows:
    """A relation of the reading's engine as something another engine can read."""

    relation: Any

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.relation.__arrow_c_stream__(requested_schema)


class ParquetFiles:
    """Writes Parquet files of one resource and hands them to the sink."""

    def __init__(self, cursor: Any, resource: Resource, sink: FileSink) -> None:
        self._cursor = cursor
        self._resource = resource
        self._sink = sink

    def empty(self) -> StoredFormat:
        """The shared file without rows."""
        types = ", ".join(
            _for_arrow(f"CAST(NULL AS {ENGINE_TYPES[column.type]})", column) for column in self._resource.columns
        )
        with self._writer() as write:
            return write("", self._cursor.sql(f"SELECT {types} LIMIT 0"))

    def make(
        self,
        relation: str,
        order: str,
        leaders: Sequence[LeaderRows],
        on_rows: Callable[[int], None],
    ) -> dict[str, dict[str, StoredFormat]]:
        """One file for each Leader, which `wanted_leaders` numbers; by client_id and format."""
        columns = ", ".join(_for_arrow(quoted(column.name), column) for column in self._resource.columns)
        # Written in order once, so that each Leader's part is found by its place.
        self._cursor.execute(
            "CREATE OR REPLACE TEMP TABLE rows_in_order AS "
            f"SELECT ordinal, row_number() OVER (ORDER BY ordinal, {order}) AS place, {columns} "
            f"FROM (SELECT ordinal, rows.* FROM {relation} AS rows "
            'JOIN wanted_leaders ON wanted_leaders.wanted_id = rows."LEADER_ID") '
            "ORDER BY place"
        )
        names = ", ".join(quoted(column.name) for column in self._resource.columns)
        stored: dict[str, dict[str, StoredFormat]] = {}
        rows = 0
        with self._writer() as write:
            for leader in leaders:
                first, rows = rows + 1, rows + leader.rows
                own = self._cursor.sql(
                    f"SELECT {names} FROM rows_in_order WHERE place BETWEEN {first} AND {rows} ORDER BY place"
                )
                stored[leader.client_id] = {PARQUET: write(leader.client_id, own)}
                on_rows(rows)
        self._cursor.execute("DROP TABLE rows_in_order")
        return stored

    @contextmanager
    def _writer(self) -> Iterator[Callable[[str, Any], StoredFormat]]:
        """A function that writes a relation as one Leader's file."""
        spill = Path(self._cursor.execute("SELECT current_setting('temp_directory')").fetchall()[0][0])
        columns = ", ".join(_for_parquet(column) for column in self._resource.columns)
        with (
            tempfile.TemporaryDirectory(prefix="parquet-", dir=spill) as folder,
            closing(open_engine(memory_bytes=_WRITER_BYTES, threads=1, temp_dir=Path(folder))) as engine,
        ):
            path = Path(folder) / "file.parquet"
            target = literal(str(path))

            def write(client_id: str, relation: Any) -> StoredFormat:
                _copy(engine, relation, columns, target)
                digest = hashlib.sha256()
                length = 0

                def pieces() -> Iterator[bytes]:
                    nonlocal length
                    with path.open("rb") as file:
                        while piece := file.read(_PIECE_BYTES):
                            digest.update(piece)
                            length += len(piece)
                            yield piece

                written = self._sink.write(client_id, self._resource.name, PARQUET, pieces())
                return StoredFormat(written.bytes, written.sha256, length, digest.hexdigest(), written.key)

            yield write


def _copy(engine: duckdb.DuckDBPyConnection, relation: Any, columns: str, target: str) -> None:
    engine.register("leader_rows", _Rows(relation))
    try:
        engine.execute(f"COPY (SELECT {columns} FROM leader_rows) TO {target} (FORMAT parquet, COMPRESSION zstd)")
    finally:
        engine.unregister("leader_rows")


def _for_arrow(value: str, column: Column) -> str:
    # Arrow has no UUID of its own: as text it arrives the same everywhere.
    given = f"CAST({value} AS VARCHAR)" if column.type is ColumnType.UUID else value
    return f"{given} AS {quoted(column.name)}"


def _for_parquet(column: Column) -> str:
    name = quoted(column.name)
    match column.type:
        case ColumnType.UUID:
            return f"CAST({name} AS UUID) AS {name}"
        case ColumnType.TIMESTAMP:
            # With its zone, so that no reader takes it for a local time.
            return f"timezone('UTC', {name}) AS {name}"
        case _:
            return name
