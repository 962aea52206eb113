"""Apache Spark as source: the models run in Spark SQL, and tasks write the files.

Rows are distributed to tasks by Leader. A task stages its rows in its own embedded engine and runs the same
export as other sources, so the bytes are the same. It stores the files and returns only manifest entries. A task
that is retried, or runs twice, writes the same bytes under the same names.

A Leader with more rows than a partition should have gets a dedicated task, and those tasks start first. A Leader so
large that all others would wait for it is split: several tasks encode ranges of its rows, and one joins them into the
same files.
"""

import atexit
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from daybreak.catalogue.models import Model
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError, SourceUnavailable
from daybreak.sources.contract import Columns
from daybreak.sources.malformed import MalformedPolicy
from daybreak.sources.parquet_folder import list_tables
from daybreak.sources.spark.errors import error_message, spark_faults
from daybreak.sources.spark.reading import SparkReading, TaskLimits

_CATALOG = "catalog:"
# The last is Spark's condition for a folder without files.
_MISSING = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


def spark_session(settings: Mapping[str, str]) -> SparkSession:
    """Return the running session, or start one with Spark's usual configuration and these settings, in UTC. Raises
    SourceUnavailable.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName("daybreak")
    for name, value in {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
        # Dates before 1582 are the stored days, as in other engines. Files with dates of the Julian calendar say so.
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except PySparkException as error:
        raise SourceUnavailable(f"The Spark session cannot start: {error_message(error)}") from error
    _stop_at_exit(session.sparkContext)
    return session


@cache
def _stop_at_exit(context: SparkContext) -> None:
    """Stop Spark before this process exits, so that it completes its log and releases its executors: in a container
    its JVM can be killed at the same moment.
    """

    def stop() -> None:
        # The JVM may already have ended.
        with suppress(Py4JError, OSError):
            context.stop()

    atexit.register(stop)


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A `PlatformSource` over any tables that a Spark session can read.

    `location` is a folder or URL of Parquet (`TABLE.parquet` or `TABLE/` in it), or `catalog:NAME` for a database of
    the session's catalog (Iceberg, Delta, Hive, JDBC tables). `settings` are Spark's own, such as `spark.master`.
    `limits` apply to each task.
    """

    location: str
    models: Mapping[str, Model]
    _: KW_ONLY
    settings: Mapping[str, str]
    limits: TaskLimits
    malformed_rows: MalformedPolicy = "refuse"

    engine: ClassVar[str] = "spark"

    @contextmanager
    def open(self, as_of: datetime) -> Iterator[SparkReading]:
        """Open a reading in a session with its own views. Raises SourceError."""
        session = spark_session(self.settings).newSession()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        with spark_faults("The source"):
            tables = create_source_views(session, self.location)
        yield SparkReading(session, as_of, self.models, tables, self.limits, self.malformed_rows)

    def query(self, sql: str) -> list[dict[str, object]]:
        """Return the rows of a query, as `DirectorySource.query` does."""
        with self.open(datetime.now(UTC)) as reading, spark_faults("A query under [directory]"):
            return reading.query(sql)


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
