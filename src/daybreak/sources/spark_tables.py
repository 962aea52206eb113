"""Which tables a location holds for Spark: a database of its catalogue, or a folder of Parquet.

A folder is read as the embedded engine reads one: a table is `TABLE.parquet` (a file, or a folder as Spark writes it)
or the folder `TABLE`, never both.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError
from daybreak.sources.contract import Columns
from daybreak.sources.spark_faults import words_of

_CATALOGUE = "catalog:"
# The last is what Spark says of a folder without files.
_NOT_THERE = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


def show_tables(session: SparkSession, location: str) -> dict[str, Columns]:
    """Views `raw_TABLE` on what is there; names and types of their columns. A missing table is left out. The other
    tables of a database are found by their plain names.

    Raises SourceError that lists the tables Spark cannot read, or of which it cannot tell what is part of them.
    """
    found: dict[str, Columns] = {}
    faults: list[str] = []
    for table in SOURCE_TABLES:
        try:
            frame = _table(session, location, table.name)
        except AnalysisException as error:
            faults.append(f"table {table.name}: {words_of(error)}")
            continue
        if frame is not None:
            frame.createOrReplaceTempView(f"raw_{table.name}")
            found[table.name] = [(field.name.lower(), field.dataType.simpleString()) for field in frame.schema.fields]
    if faults:
        raise SourceError(
            "Spark cannot read all of the source (identifiers must be text in Parquet: it knows no UUID):\n  "
            + "\n  ".join(faults)
        )
    if found and location.startswith(_CATALOGUE):
        session.sql(f"USE {location.removeprefix(_CATALOGUE)}")
    return found


def _table(session: SparkSession, location: str, table: str) -> DataFrame | None:
    """The table, None when it is missing. Raises SourceError, AnalysisException."""
    if location.startswith(_CATALOGUE):
        return _there(session.table, f"{location.removeprefix(_CATALOGUE)}.{table}")
    folder = location.rstrip("/")
    places = [f"{folder}/{table}.parquet", f"{folder}/{table}"]
    found = [(place, frame) for place in places if (frame := _there(session.read.parquet, place)) is not None]
    if len(found) > 1:
        raise SourceError(f"Table {table} is there twice: {places[0]} and {places[1]}. Move one of them away.")
    for place, frame in found:
        if _there(session.read.text, f"{place}/_delta_log/*.json") is not None:
            raise SourceError(
                f"{place} is a Delta table: which of its files count stands in its log. "
                'Give Spark its extension for Delta, and the tables as a database: source.location = "catalog:NAME".'
            )
        return frame
    return None


def _there(read: Callable[[str], DataFrame], what: str) -> DataFrame | None:
    """What is read there, None when nothing is. Raises AnalysisException."""
    try:
        return read(what)
    except AnalysisException as error:
        if error.getCondition() not in _NOT_THERE:
            raise
        return None
