"""The source tables in Spark: a database of its catalog, or a folder of Parquet files.

The layout of a folder is the same as for the embedded engine: a table is `TABLE.parquet` (a file, or a folder as Spark
writes it) or the folder `TABLE`. It is an error if both exist.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError
from daybreak.sources.contract import Columns
from daybreak.sources.parquet_folder import list_tables
from daybreak.sources.spark.errors import error_message

_CATALOG = "catalog:"
# The last is Spark's condition for a folder without files.
_MISSING = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


def create_source_views(session: SparkSession, location: str) -> dict[str, Columns]:
    """Create the views `raw_TABLE` on the source tables that exist, and return their columns. Other tables of a
    database are available under their plain names.

    Raises SourceError that lists every table that Spark cannot read, or whose files are ambiguous.
    """
    _check_folder(location)
    found: dict[str, Columns] = {}
    faults: list[str] = []
    for table in SOURCE_TABLES:
        try:
            frame = _read_table(session, location, table.name)
        except AnalysisException as error:
            faults.append(f"table {table.name}: {error_message(error)}")
            continue
        if frame is not None:
            frame.createOrReplaceTempView(f"raw_{table.name}")
            found[table.name] = [(field.name.lower(), field.dataType.simpleString()) for field in frame.schema.fields]
    if faults:
        raise SourceError(
            "Spark cannot read all of the source. It has no UUID type: store identifiers in Parquet as text.\n  "
            + "\n  ".join(faults)
        )
    if found and location.startswith(_CATALOG):
        session.sql(f"USE {location.removeprefix(_CATALOG)}")
    return found


def _check_folder(location: str) -> None:
    """Raise SourceError for entries of a local folder that Spark would skip, such as names that begin with `_`."""
    folder = Path(location.removeprefix("file://") if location.startswith("file:///") else location)
    if not location.startswith(_CATALOG) and folder.is_dir():
        list_tables(folder)


def _read_table(session: SparkSession, location: str, table: str) -> DataFrame | None:
    """Return the table, None when it does not exist. Raises SourceError, AnalysisException."""
    if location.startswith(_CATALOG):
        return _if_exists(session.table, f"{location.removeprefix(_CATALOG)}.{table}")
    folder = location.rstrip("/")
    paths = [f"{folder}/{table}.parquet", f"{folder}/{table}"]
    found = [(path, frame) for path in paths if (frame := _if_exists(session.read.parquet, path)) is not None]
    if len(found) > 1:
        raise SourceError(f"Table {table} exists twice: {paths[0]} and {paths[1]}. Remove one of them.")
    for path, frame in found:
        if _if_exists(session.read.text, f"{path}/_delta_log/*.json") is not None:
            raise SourceError(
                f"{path} is a Delta table, whose log lists the current files. Configure Spark's Delta extension "
                'and read the tables through a catalog: source.location = "catalog:NAME".'
            )
        return frame
    return None


def _if_exists(read: Callable[[str], DataFrame], name: str) -> DataFrame | None:
    """Return the result of `read`, None if the table or path does not exist. Raises AnalysisException."""
    try:
        return read(name)
    except AnalysisException as error:
        if error.getCondition() not in _MISSING:
            raise
        return None
