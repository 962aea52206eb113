"""The embedded engine as a source: a DuckDB file, or a folder of Parquet files.

A DuckDB file is attached read only, which also keeps DuckDB in other processes from writing to it
while it is read. Of a folder of Parquet the list of files is fixed at opening. A reading in which a
file was written over or replaced is not used. Once the source is in place the engine is locked:
no SQL of a model reaches a file, an extension or a setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import duckdb

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.models import REPEATED_TERMS, Model, check_leader_chain, check_terms
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError, SourceUnavailable
from daybreak.export.engine import ENGINE_TYPES, engine_faults, first_line, open_engine
from daybreak.export.lines import literal, quoted
from daybreak.sources.contract import Columns, ModelRefused, check_models, check_tables
from daybreak.sources.parquet_folder import FileState, TableFiles, tables_in

ACCEPTED_TYPES: Mapping[ColumnType, tuple[str, ...]] = {
    ColumnType.UUID: ("UUID", "VARCHAR"),
    ColumnType.TEXT: ("VARCHAR", "ENUM"),
    ColumnType.BIGINT: (
        "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "HUGEINT", "UBIGINT", "UINTEGER", "USMALLINT", "UTINYINT",
        "DECIMAL",
    ),
    ColumnType.BOOLEAN: ("BOOLEAN",),
    ColumnType.DATE: ("DATE",),
    ColumnType.TIMESTAMP: (
        "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS",
    ),
}  # fmt: skip
_NANOSECONDS = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
# Of a DuckDB file, after a checksum.
_MAGIC, _MAGIC_AT = b"DUCK", 8


@dataclass(frozen=True, slots=True)
class DuckdbSource:
    """A RowSource over a DuckDB file or a folder of Parquet files.

    `memory_bytes` is for the engine alone; `temp_dir` takes what does not fit, and is made when it
    is not there. `models` come from `catalogue.models.load_models`.
    """

    location: Path
    models: Mapping[str, Model]
    _: KW_ONLY
    memory_bytes: int
    threads: int
    temp_dir: Path

    engine: ClassVar[str] = "duckdb"

    @contextmanager
    def open(self, as_of: datetime) -> Iterator[DuckdbReading]:
        """Opens the source for one reading. Raises SourceError, SourceUnavailable (transient)."""
        tables = _parquet_tables(self.location)
        connection = open_engine(memory_bytes=self.memory_bytes, threads=self.threads, temp_dir=self.temp_dir)
        try:
            if tables is None:
                states: tuple[FileState, ...] = (FileState.of(self.location),)
                _attach(connection, self.location)
                _lock(connection, [])
            else:
                states = tuple(state for table in tables for state in table.parts)
                _show_parquet(connection, tables)
                _lock(connection, [state.path for state in states])
            reading = DuckdbReading(connection, self.location, as_of, self.models, states)
            try:
                yield reading
            except SourceError:
                # A file that was replaced under the engine fails in many ways, all of which pass.
                reading.confirm()
                raise
        finally:
            connection.close()

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query of the operator's own (`[directory]`), by column name. Raises SourceError."""
        what = engine_faults("A query under [directory]")
        with self.open(datetime.now(UTC)) as reading, reading.cursor() as cursor, what:
            _show_others(cursor)
            relation = cursor.sql(sql)
            return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


class DuckdbReading:
    """One reading of a DuckDB source; a `daybreak.ports.sources.EmbeddedReading`."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        location: Path,
        as_of: datetime,
        models: Mapping[str, Model],
        files: tuple[FileState, ...],
    ) -> None:
        self._connection = connection
        self._as_of = as_of
        self._models = models
        self._files = files
        self._leaders: list[str] | None = None
        self._selects: dict[str, str] = {}
        found = _columns_of_source(connection)
        check_tables(f"The source {location}", found, ACCEPTED_TYPES)
        _make_typed_views(connection, found)
        if not all(model.is_portable for model in models.values()):
            _show_others(connection)

    @property
    def as_of(self) -> datetime:
        return self._as_of

    def check(self) -> None:
        """Holds each model's columns to the catalogue, and Leaders and terms to reason."""
        with self.cursor() as cursor:

            def columns_of(model: Model) -> Columns:
                try:
                    # Not DESCRIBE: it gives the stored name of a column whose new name differs in case alone.
                    described = cursor.sql(f"SELECT * FROM ({model.at(self._as_of)})")
                except duckdb.Error as error:
                    raise ModelRefused(first_line(error)) from error
                return list(zip(described.columns, map(str, described.types), strict=True))

            check_models(self._models, columns_of, ACCEPTED_TYPES)
            with engine_faults("Table leaders"):
                pairs = cursor.execute(
                    "SELECT CAST(leader_id AS VARCHAR), CAST(parent_leader_id AS VARCHAR) FROM leaders"
                ).fetchall()
            with engine_faults("Table terms"):
                repeated = cursor.execute(REPEATED_TERMS).fetchone()
        check_leader_chain(pairs)
        check_terms(repeated)

    def leaders(self) -> list[str]:
        """Every Leader of table leaders, sorted."""
        if self._leaders is None:
            with self.cursor() as cursor, engine_faults("Table leaders"):
                rows = cursor.execute(
                    "SELECT CAST(leader_id AS VARCHAR) FROM leaders WHERE leader_id IS NOT NULL ORDER BY leader_id"
                ).fetchall()
            self._leaders = [row[0] for row in rows]
        return self._leaders

    def input_bytes(self) -> int:
        """Bytes of the file, or of all Parquet files."""
        return sum(state.size for state in self._files)

    def rows(self, resource: str) -> str:
        """The model's SELECT, or of what it condenses: that is made when first asked for and kept to the end, spilling
        like all else. Plain filters and projections cost less to run again than to keep.
        """
        if resource not in self._selects:
            select = self._models[resource].at(self._as_of)
            if "GROUP BY" in select.upper():
                with self.cursor() as cursor:
                    cursor.execute("CREATE SCHEMA IF NOT EXISTS condensed")
                    cursor.execute(f"CREATE TABLE condensed.{resource} AS {select}")
                select = f"SELECT * FROM condensed.{resource}"
            self._selects[resource] = select
        return self._selects[resource]

    def cursor(self) -> Any:
        return self._connection.cursor()

    def confirm(self) -> None:
        """Raises SourceUnavailable when a file changed since opening."""
        changed = [str(state.path) for state in self._files if not state.stands()]
        if changed:
            raise SourceUnavailable(
                "These files changed while they were read; the run is not used:\n  " + "\n  ".join(changed)
            )


def _parquet_tables(location: Path) -> list[TableFiles] | None:
    """The tables of a folder of Parquet; None when the location is a file. Raises SourceError, SourceUnavailable."""
    if location.is_file():
        return None
    if not location.is_dir():
        what = "is neither a file nor a folder" if location.exists() else "is not there"
        raise SourceError(
            f"source.location: {location} {what}: name a DuckDB file, or a folder with TABLE.parquet files."
        )
    try:
        return tables_in(location)
    except OSError as error:
        raise SourceUnavailable(f"The source {location} cannot be listed: {error}") from error


def _attach(connection: duckdb.DuckDBPyConnection, location: Path) -> None:
    try:
        with location.open("rb") as file:
            head = file.read(_MAGIC_AT + len(_MAGIC))
    except OSError as error:
        raise SourceError(f"The source {location} cannot be opened: {error.strerror}") from error
    if head[_MAGIC_AT:] != _MAGIC:
        raise SourceError(
            f"The source {location} cannot be opened: it is no DuckDB file. "
            "Name one, or a folder with TABLE.parquet files."
        )
    try:
        connection.execute(f"ATTACH {literal(str(location))} AS source (READ_ONLY)")
    except duckdb.IOException as error:
        if "lock" in str(error).lower():
            raise SourceUnavailable(
                f"The source {location} is open for writing in another process; "
                f"close it or point source.location at a copy. ({first_line(error)})"
            ) from error
        raise SourceError(f"The source {location} cannot be opened: {first_line(error)}") from error
    except duckdb.Error as error:
        raise SourceError(f"The source {location} cannot be opened: {first_line(error)}") from error


def _show_parquet(connection: duckdb.DuckDBPyConnection, tables: Sequence[TableFiles]) -> None:
    """One view per table in the schema `source`. Parts may have their columns in any order, and lack what may be NULL.

    Raises SourceError, also when a part lacks a column that must be given.
    """
    connection.execute("CREATE SCHEMA source")
    faults: list[str] = []
    for table in tables:
        paths = ", ".join(literal(str(part.path)) for part in table.parts)
        kinds = {
            column.name: ENGINE_TYPES[column.type] for column in _columns(table.name) if column.name in table.split_by
        }
        split = f", hive_partitioning = {bool(table.split_by)}"
        if kinds:
            split += ", hive_types = {" + ", ".join(f"{literal(name)}: {kind}" for name, kind in kinds.items()) + "}"
        try:
            connection.execute(
                f"CREATE VIEW source.{quoted(table.name)} AS "
                f"SELECT * FROM read_parquet([{paths}], union_by_name = {len(table.parts) > 1}{split})"
            )
            faults += _lacking(connection, table) if len(table.parts) > 1 else []
        except duckdb.Error as error:
            raise SourceError(f"Table {table.name} cannot be read: {first_line(error)}") from error
    if faults:
        raise SourceError("The parts of the source are not as expected:\n  " + "\n  ".join(faults))


def _lacking(connection: duckdb.DuckDBPyConnection, table: TableFiles) -> list[str]:
    """A line for each column that must be given and is in other parts of the table, but not in this one."""
    rows = connection.execute(
        "SELECT file_name, list(DISTINCT lower(name)) FROM parquet_schema($1) GROUP BY file_name ORDER BY file_name",
        [[str(part.path) for part in table.parts]],
    ).fetchall()
    somewhere = {name for _, names in rows for name in names}
    return [
        f"column {table.name}.{column.name} is missing in {file}"
        for file, names in rows
        for column in _columns(table.name)
        if not column.nullable and column.name in somewhere.difference(names, table.split_by)
    ]


def _columns(table: str) -> tuple[Column, ...]:
    return next((known.columns for known in SOURCE_TABLES if known.name == table), ())


def _lock(connection: duckdb.DuckDBPyConnection, paths: list[Path]) -> None:
    """Nothing but the source's own files can be read from here on, no setting be changed."""
    if paths:
        listed = ", ".join(literal(str(path)) for path in paths)
        connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _columns_of_source(connection: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    """The columns of those of the thirteen tables that are there, their names in lower case. Raises SourceError for one
    that cannot be read.
    """
    found: dict[str, Columns] = {}
    for table in SOURCE_TABLES:
        # Not the engine's own list of columns: for that it first makes its hundred views of itself.
        with engine_faults(f"Table {table.name}"):
            try:
                relation = connection.sql(f"SELECT * FROM source.{table.name}")
            except duckdb.CatalogException as error:
                if f"name {table.name} does not exist" in str(error):
                    continue
                raise
        names = map(str.lower, relation.columns)
        found[table.name] = list(zip(names, map(str, relation.types), strict=True))
    return found


def _make_typed_views(connection: duckdb.DuckDBPyConnection, found: Mapping[str, Columns]) -> None:
    """The thirteen tables under their plain names, in our types."""
    for table in SOURCE_TABLES:
        kinds = dict(found[table.name])
        columns = ", ".join(_typed(column, kinds[column.name]) for column in table.columns)
        connection.execute(f"CREATE VIEW main.{table.name} AS SELECT {columns} FROM source.{table.name}")


def _show_others(connection: duckdb.DuckDBPyConnection) -> None:
    """The source's other tables under their plain names too, for queries and models of the operator's own."""
    for (name,) in connection.execute("SHOW TABLES FROM source").fetchall():
        if not _columns(name.lower()):
            # One that is in another schema or cannot be read is missed by those alone who ask for it.
            with suppress(duckdb.Error):
                connection.execute(
                    f"CREATE VIEW IF NOT EXISTS main.{quoted(name)} AS SELECT * FROM source.{quoted(name)}"
                )


def _typed(column: Column, kind: str) -> str:
    value = _whole_microseconds(column.name) if kind in _NANOSECONDS else column.name
    # Texts are compared by their letters whatever their table says; only a collation takes a collation away.
    letters = " COLLATE C" if column.type is ColumnType.TEXT else ""
    return f"CAST({value} AS {ENGINE_TYPES[column.type]}){letters} AS {column.name}"


def _whole_microseconds(name: str) -> str:
    """A column of nanoseconds, as pandas writes them, cut to microseconds.

    A cast would round: the last instant of a day would be on the next. Infinities have no number; those with a zone
    have no way of their own to an instant without.
    """
    number = f"epoch_ns({name})"
    return (
        f"CASE WHEN {number} < 0 THEN make_timestamp(({number} + 1) // 1000 - 1) "
        f"ELSE coalesce(make_timestamp({number} // 1000), CAST(CAST({name} AS TIMESTAMPTZ) AS TIMESTAMP)) END"
    )
