"""Parquet files whose dates before 1582-10-15 are of the Julian calendar.

Spark 2, Hive and Spark with a legacy setting write such files. Spark converts these dates when it reads them. Other
readers do not, and return other days.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.counts import format_count
from daybreak.domain.errors import SourceError
from daybreak.export.engine import engine_faults
from daybreak.export.sql import literal
from daybreak.sources.parquet_folder import TableFiles

_FIRST_GREGORIAN_DAY = "DATE '1582-10-15'"
_TEMPORAL = {
    table.name: [column.name for column in table.columns if column.type in {ColumnType.DATE, ColumnType.TIMESTAMP}]
    for table in SOURCE_TABLES
}
# https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/DataSourceUtils.scala
_LEGACY = (
    "key IN ('org.apache.spark.legacyDateTime'::BLOB, 'org.apache.spark.legacyINT96'::BLOB) "
    "OR key = 'org.apache.spark.version'::BLOB AND value < '3'::BLOB "
    "OR key = 'writer.date.proleptic'::BLOB AND value = 'false'::BLOB"
)


def refuse_julian_dates(connection: duckdb.DuckDBPyConnection, tables: Sequence[TableFiles]) -> None:
    """Raise SourceError that names each column with such dates, and counts them."""
    faults = [fault for table in tables if _TEMPORAL.get(table.name) for fault in _julian_dates(connection, table)]
    if faults:
        raise SourceError(
            "Parquet files of the source have dates of the Julian calendar, which would be exported as other days:\n  "
            + "\n  ".join(faults)
            + "\nWrite these files with Spark 3 or later and spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED, or "
            'set source.engine = "spark".'
        )


def _julian_dates(connection: duckdb.DuckDBPyConnection, table: TableFiles) -> Iterator[str]:
    names = ", ".join(literal(str(file.path)) for file in table.files)
    with engine_faults(f"Table {table.name}"):
        found = connection.execute(
            f"SELECT DISTINCT file_name FROM parquet_kv_metadata([{names}]) WHERE {_LEGACY}"
        ).fetchall()
        if not found:
            return
        legacy = ", ".join(literal(str(name)) for (name,) in found)
        rows = connection.sql(f"SELECT * FROM read_parquet([{legacy}], union_by_name = true)")
        kinds = {name.lower(): str(kind) for name, kind in zip(rows.columns, rows.types, strict=True)}
        for column in _TEMPORAL[table.name]:
            if not kinds.get(column, "").startswith(("DATE", "TIMESTAMP")):
                continue
            (count,) = rows.filter(f"{column} < {_FIRST_GREGORIAN_DAY}").aggregate("count(*)").fetchall()[0]
            if count:
                yield f"{table.name}: {column} in {format_count(count, 'row')} is before 1582-10-15"
