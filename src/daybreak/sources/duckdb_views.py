"""Views in the embedded engine: a DuckDB file or Parquet files as the schema `source`, and on top of it the source
tables in the catalogue's types.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.source_tables import SOURCE_TABLES, SourceTable
from daybreak.domain.errors import SourceError, SourceUnavailable, first_line
from daybreak.export.duckdb_internals import is_file_locked, is_table_missing
from daybreak.export.engine import ENGINE_TYPES, engine_faults
from daybreak.export.sql import identifier, literal
from daybreak.sources.contract import Columns
from daybreak.sources.malformed import MalformedRows, count_conditions, find_malformed
from daybreak.sources.parquet_folder import TableFiles

_UNSAFE_KINDS = {ColumnType.UUID: ("VARCHAR",), ColumnType.TIMESTAMP: ("TIMESTAMP_S", "TIMESTAMP_MS")}
"""Accepted types with values that cannot be converted, by the type of the catalogue."""
_NANOSECONDS = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
# Magic bytes of a DuckDB file, after a checksum.
_MAGIC, _MAGIC_OFFSET = b"DUCK", 8


def attach_file(connection: duckdb.DuckDBPyConnection, location: Path) -> None:
    """Attach a DuckDB file as `source`, read only. Raises SourceError, SourceUnavailable."""
    try:
        with location.open("rb") as file:
            head = file.read(_MAGIC_OFFSET + len(_MAGIC))
    except OSError as error:
        raise SourceError(f"The source {location} cannot be opened: {error.strerror}.") from error
    if head[_MAGIC_OFFSET:] != _MAGIC:
        raise SourceError(
            f"The source {location} is not a DuckDB file. Set source.location to a DuckDB file, or to a folder with "
            "TABLE.parquet files."
        )
    try:
        connection.execute(f"ATTACH {literal(str(location))} AS source (READ_ONLY)")
    except duckdb.Error as error:
        if is_file_locked(error):
            raise SourceUnavailable(
                f"The source {location} is open for writing in another process. Close it there, or set source.location "
                f"to a copy. ({first_line(error)})"
            ) from error
        raise SourceError(f"The source {location} cannot be opened: {first_line(error)}") from error


def create_parquet_views(connection: duckdb.DuckDBPyConnection, tables: Sequence[TableFiles]) -> None:
    """Create the schema `source` with one view per table. The files of a table may order their columns differently and
    lack nullable ones. Raises SourceError that names every file that lacks a required column.
    """
    connection.execute("CREATE SCHEMA source")
    faults: list[str] = []
    for table in tables:
        try:
            connection.execute(f"CREATE VIEW source.{identifier(table.name)} AS SELECT * FROM {_read_parquet(table)}")
            if len(table.files) > 1:
                faults += _missing_columns(connection, table)
        except duckdb.Error as error:
            raise SourceError(f"Table {table.name} cannot be read: {first_line(error)}") from error
    if faults:
        raise SourceError("The Parquet files of the source are not as expected:\n  " + "\n  ".join(faults))


def source_columns(connection: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    """Return the columns of the source tables that exist, names in lower case. Raises SourceError for a table that
    cannot be read.
    """
    found: dict[str, Columns] = {}
    for table in SOURCE_TABLES:
        # A query of the engine's list of columns would first create about a hundred system views.
        with engine_faults(f"Table {table.name}"):
            try:
                relation = connection.sql(f"SELECT * FROM source.{table.name}")
            except duckdb.Error as error:
                if is_table_missing(error, table.name):
                    continue
                raise
        names = map(str.lower, relation.columns)
        found[table.name] = list(zip(names, map(str, relation.types), strict=True))
    return found


def create_typed_views(
    connection: duckdb.DuckDBPyConnection, tables: Collection[SourceTable], columns_of: Mapping[str, Columns]
) -> None:
    """Create these source tables under their plain names, in the catalogue's types."""
    for table in tables:
        kinds = dict(columns_of[table.name])
        columns = ", ".join(_typed(column, kinds[column.name]) for column in table.columns)
        connection.execute(f"CREATE VIEW main.{table.name} AS SELECT {columns} FROM source.{table.name}")


def refuse_malformed(
    connection: duckdb.DuckDBPyConnection, tables: Collection[SourceTable], columns_of: Mapping[str, Columns]
) -> list[MalformedRows]:
    """Count the malformed rows, and exclude them from the typed views."""
    malformed = []
    for table in tables:
        kinds = dict(columns_of[table.name])
        conditions = {
            column.name: f"{column.name} IS NOT NULL AND TRY_CAST({column.name} AS {ENGINE_TYPES[column.type]}) IS NULL"
            for column in table.columns
            if kinds[column.name].startswith(_UNSAFE_KINDS.get(column.type, ()))
        } | count_conditions(table)
        with engine_faults(f"Table {table.name}"):
            found = find_malformed(
                table, conditions, f"source.{table.name}", lambda sql: connection.execute(sql).fetchall()
            )
        if found:
            columns = ", ".join(
                f"TRY_CAST({column.name} AS {ENGINE_TYPES[column.type]}) AS {column.name}"
                if column.name in conditions
                else _typed(column, kinds[column.name])
                for column in table.columns
            )
            valid = " AND ".join(f"NOT ({condition})" for condition in conditions.values())
            connection.execute(
                f"CREATE OR REPLACE VIEW main.{table.name} AS SELECT {columns} FROM source.{table.name} WHERE {valid}"
            )
            malformed += found
    return malformed


def create_other_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the source's other tables under their plain names, for the operator's own queries and models."""
    for (name,) in connection.execute("SHOW TABLES FROM source").fetchall():
        # A table of another schema, or one that cannot be read, is an error only for a query that names it.
        with suppress(duckdb.Error):
            connection.execute(
                f"CREATE VIEW IF NOT EXISTS main.{identifier(name)} AS SELECT * FROM source.{identifier(name)}"
            )


def _read_parquet(table: TableFiles) -> str:
    paths = ", ".join(literal(str(file.path)) for file in table.files)
    types = {
        column.name: ENGINE_TYPES[column.type]
        for column in _catalogue_columns(table.name)
        if column.name in table.partition_columns
    }
    options = f"union_by_name = {len(table.files) > 1}, hive_partitioning = {bool(table.partition_columns)}"
    if types:
        options += ", hive_types = {" + ", ".join(f"{literal(name)}: {kind}" for name, kind in types.items()) + "}"
    return f"read_parquet([{paths}], {options})"


def _missing_columns(connection: duckdb.DuckDBPyConnection, table: TableFiles) -> Iterator[str]:
    """Yield a fault for each required column that some files of the table have and one lacks."""
    rows = connection.execute(
        "SELECT file_name, list(DISTINCT lower(name)) FROM parquet_schema($1) GROUP BY file_name ORDER BY file_name",
        [[str(file.path) for file in table.files]],
    ).fetchall()
    in_some_file = {name for _, names in rows for name in names}
    for file, names in rows:
        missing = in_some_file.difference(names, table.partition_columns)
        for column in _catalogue_columns(table.name):
            if not column.nullable and column.name in missing:
                yield f"column {table.name}.{column.name} is missing in {file}"


def _catalogue_columns(table: str) -> tuple[Column, ...]:
    return next((known.columns for known in SOURCE_TABLES if known.name == table), ())


def _typed(column: Column, kind: str) -> str:
    value = column.name
    if kind in _NANOSECONDS:
        value = _microseconds(column.name)
    elif column.type is ColumnType.TIMESTAMP and kind == "TIMESTAMP WITH TIME ZONE":
        # The time zone is UTC. A cast applies its rules to every row, which takes six times as long. Only an infinity,
        # of which `epoch_us` is NULL, is cast.
        value = f"coalesce(make_timestamp(epoch_us({value})), CAST({value} AS TIMESTAMP))"
    # Texts are compared by their bytes. Only an explicit collation overrides that of the table.
    collation = " COLLATE C" if column.type is ColumnType.TEXT else ""
    return f"CAST({value} AS {ENGINE_TYPES[column.type]}){collation} AS {column.name}"


def _microseconds(name: str) -> str:
    """Return SQL that truncates a column of nanoseconds, as pandas writes them, to microseconds.

    A cast rounds, which moves the last instant of a day to the next day. `epoch_ns` of an infinity is NULL. A
    nanosecond type with a time zone can be converted to one without a time zone only through TIMESTAMPTZ.
    """
    number = f"epoch_ns({name})"
    return (
        f"CASE WHEN {number} < 0 THEN make_timestamp(({number} + 1) // 1000 - 1) "
        f"ELSE coalesce(make_timestamp({number} // 1000), CAST(CAST({name} AS TIMESTAMPTZ) AS TIMESTAMP)) END"
    )
