"""Apache Spark as source: the models run in Spark SQL, and tasks write the files.

Rows are distributed to tasks by Leader. A task stages its rows in its own embedded engine and runs the same
export as other sources, so the bytes are the same. It stores the files and returns only manifest entries. A task
that is retried, or runs twice, writes the same bytes under the same names.

A Leader with more rows than a partition should have gets a dedicated task, and those tasks start first. A Leader so
large that all others would wait for it is split: several tasks encode ranges of its rows, and one joins them into the
same files.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import cache
from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from daybreak.catalogue.models import Model
from daybreak.domain.errors import SourceUnavailable
from daybreak.sources.malformed import MalformedPolicy
from daybreak.sources.spark.errors import error_message, spark_faults
from daybreak.sources.spark.reading import SparkReading, TaskLimits
from daybreak.sources.spark.tables import create_source_views


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
