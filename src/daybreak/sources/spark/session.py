"""The Spark session of this process."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from daybreak.domain.errors import SourceUnavailable
from daybreak.sources.spark.errors import error_message


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
