"""The embedded engine as source: a DuckDB file, or a folder of Parquet files.

A DuckDB file is attached read only, which also prevents DuckDB in other processes from writing to it. The list of
Parquet files is fixed at opening. A reading is rejected if a file is overwritten or replaced in the meantime. After the
source is attached, the engine is locked: the SQL of a model cannot access another file, an extension or a setting.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import duckdb

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.models import Model
from daybreak.domain.errors import SourceError, SourceUnavailable, first_line
from daybreak.export.engine import engine_faults, error_reason, lock_engine, open_engine
from daybreak.sources.contract import (
    Columns,
    ModelRejected,
    check_models,
    check_tables,
    check_terms,
    require_distinct,
    usable_tables,
)
from daybreak.sources.dialects import aggregates
from daybreak.sources.duckdb_views import (
    attach_file,
    create_other_views,
    create_parquet_views,
    create_typed_views,
    refuse_malformed,
    source_columns,
)
from daybreak.sources.engine_reading import EmbeddedReading
from daybreak.sources.malformed import MalformedPolicy, apply_policy
from daybreak.sources.parquet_folder import FileState, TableFiles, list_tables, refuse_julian_dates

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
_UNREADABLE = (
    (
        "Could not convert Timestamp",
        (ColumnType.TIMESTAMP,),
        (
            "values beyond the years of a timestamp, such as the largest number of milliseconds. Write NULL or a valid "
            "time instead"
        ),
    ),
    (
        "Invalid string encoding found in Parquet",
        (ColumnType.UUID, ColumnType.TEXT),
        "texts that are not UTF-8. Correct them",
    ),
)
"""Errors of the engine about values of Parquet files: a part of the message, the types of the columns, and advice."""
_ROWS_PER_FETCH = 10_000


@dataclass(frozen=True, slots=True)
class DuckdbSource:
    """A `PlatformSource` over a DuckDB file or a folder of Parquet files.

    `memory_bytes` is the engine's memory limit. The engine spills to `temp_dir`, which is created if it does not exist.
    `models` come from `catalogue.models.load_models`.
    """

    location: Path
    models: Mapping[str, Model]
    _: KW_ONLY
    memory_bytes: int
    threads: int
    temp_dir: Path
    malformed_rows: MalformedPolicy = "refuse"

    engine: ClassVar[str] = "duckdb"

    @contextmanager
    def open(self, as_of: datetime) -> Iterator["DuckdbReading"]:
        """Open the source for one reading. Raises SourceError, SourceUnavailable."""
        tables = _parquet_tables(self.location)
        engine = open_engine(memory_bytes=self.memory_bytes, threads=self.threads, temp_dir=self.temp_dir)
        with closing(engine) as connection:
            if tables is None:
                files: tuple[FileState, ...] = (FileState.of(self.location),)
                attach_file(connection, self.location)
                lock_engine(connection)
            else:
                files = tuple(file for table in tables for file in table.files)
                create_parquet_views(connection, tables)
                refuse_julian_dates(connection, tables)
                lock_engine(connection, [file.path for file in files])
            reading = DuckdbReading(connection, self, as_of, files)
            try:
                yield reading
            except SourceError as error:
                # A replaced file causes various errors, and all of them are transient.
                reading.confirm_unchanged()
                reading.check_values(error.__cause__)
                raise

    def query(self, sql: str) -> list[dict[str, object]]:
        """Return the rows of a query, as `DirectorySource.query` does."""
        faults = engine_faults("A query under [directory]")
        with self.open(datetime.now(UTC)) as reading, reading.cursor() as cursor, faults:
            create_other_views(cursor)
            relation = cursor.sql(sql)
            if relation is None:
                raise SourceError("A query under [directory] is not a query. Use one SELECT.")
            require_distinct(relation.columns)
            return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


class DuckdbReading(EmbeddedReading):
    """One reading of a DuckDB source: a `Reading`."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, source: DuckdbSource, as_of: datetime, files: tuple[FileState, ...]
    ) -> None:
        super().__init__(source.models, as_of, source.malformed_rows)
        self._connection = self._querying = connection
        self._files = files
        self._queries: dict[str, str] = {}
        tables = source_columns(connection)
        check_tables(f"The source {source.location}", tables, ACCEPTED_TYPES, self._required)
        self._columns = tables
        create_typed_views(connection, usable_tables(tables, ACCEPTED_TYPES), tables)
        if not all(model.shipped for model in source.models.values()):
            create_other_views(connection)

    def check(self) -> None:
        """Check models, rows, Leaders and terms. The tables were checked at opening."""
        with self.cursor() as cursor:
            usable = usable_tables(self._columns, ACCEPTED_TYPES)
            self.malformed = refuse_malformed(cursor, usable, self._columns)
            apply_policy(self._policy, self.malformed)

            def columns_of(model: Model) -> Columns:
                try:
                    # DESCRIBE would return the stored name of a column whose alias differs only in case.
                    described = cursor.sql(f"SELECT * FROM ({model.at(self._as_of)})")
                except duckdb.Error as error:
                    raise ModelRejected(first_line(error)) from error
                return list(zip(described.columns, map(str, described.types), strict=True))

            check_models(self.models, columns_of, ACCEPTED_TYPES)
            with engine_faults("Table terms"):
                check_terms(self._required, lambda sql: cursor.execute(sql).fetchone())
        self.leaders()

    def _parents(self) -> list[tuple[str | None, ...]]:
        with self.cursor() as cursor, engine_faults("Table leaders"):
            return cursor.execute(
                "SELECT CAST(leader_id AS VARCHAR), CAST(parent_leader_id AS VARCHAR) FROM leaders"
            ).fetchall()

    def input_bytes(self) -> int:
        """Return the size of the DuckDB file, or of all Parquet files."""
        return sum(file.size for file in self._files)

    def source_rows(self, subject: str, sql: str) -> Iterator[Sequence[object]]:
        with self.cursor() as cursor, engine_faults(subject):
            self._querying = cursor
            cursor.execute(sql)
            while rows := cursor.fetchmany(_ROWS_PER_FETCH):
                yield from rows

    def cancel(self) -> None:
        self._querying.interrupt()

    def confirm_unchanged(self) -> None:
        """Raise SourceUnavailable when a file changed since opening."""
        changed = [str(file.path) for file in self._files if not file.is_current()]
        if changed:
            raise SourceUnavailable(
                "These files changed while they were read. The run is discarded.\n  " + "\n  ".join(changed)
            )

    def check_values(self, fault: BaseException | None) -> None:
        """Raise SourceError that names the columns with values that the engine cannot read, if they cause `fault`."""
        for text, types, values in _UNREADABLE:
            if text not in str(fault):
                continue
            unreadable = [
                f"{table.name}.{column.name}"
                for table in usable_tables(self._columns, ACCEPTED_TYPES)
                for column in table.columns
                if column.type in types and self._raises(text, table.name, column.name)
            ]
            if unreadable and isinstance(fault, duckdb.Error):
                raise SourceError(
                    f"{', '.join(unreadable)}: the Parquet files have {values}. ({error_reason(fault)})"
                ) from fault

    def _raises(self, text: str, table: str, column: str) -> bool:
        """Return whether reading a column causes an error with this text."""
        with self.cursor() as cursor:
            try:
                # Statistics of the file do not have this maximum.
                cursor.execute(f"SELECT max(hash({column})) FROM source.{table}")
            except duckdb.Error as error:
                return text in str(error)
        return False

    def rows_query(self, resource: str) -> str:
        """Return the model's SELECT. If the model aggregates, return a SELECT over its result, which is stored on first
        use until the reading ends. Filters and projections take less work to repeat than to store.
        """
        if resource not in self._queries:
            model = self.models[resource]
            query = model.at(self._as_of)
            if aggregates(model, "duckdb"):
                with self.cursor() as cursor:
                    cursor.execute("CREATE SCHEMA IF NOT EXISTS model_results")
                    cursor.execute(f"CREATE TABLE model_results.{resource} AS {query}")
                query = f"SELECT * FROM model_results.{resource}"
            self._queries[resource] = query
        return self._queries[resource]

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self._connection.cursor()


def _parquet_tables(location: Path) -> list[TableFiles] | None:
    """Return the tables of a folder of Parquet files, None for a file. Raises SourceError, SourceUnavailable."""
    if location.is_file():
        return None
    if not location.is_dir():
        fault = "is neither a file nor a folder" if location.exists() else "does not exist"
        raise SourceError(
            f"source.location: {location} {fault}. Set it to a DuckDB file, or to a folder with TABLE.parquet files."
        )
    try:
        return list_tables(location)
    except OSError as error:
        path = error.filename or location
        raise SourceUnavailable(f"The source {location} cannot be listed: {path}: {error.strerror}.") from error
