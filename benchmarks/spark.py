"""Export of the Members in Spark: by its partitioned writers, and by Daybreak with Spark as the source.

Both use one Java process with one thread per core, and read identifiers as text. Their time includes the start of the
session, as for a submitted job.
"""

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import ENGINE_MEMORY_BYTES, cores
from benchmarks.measure import cpu_of_tree
from benchmarks.source import AS_OF, members_model, with_text_ids

_OPTIONS = {
    "spark.master": f"local[{cores()}]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
}


def partitioned(source: Path, out: Path) -> dict[str, Any]:
    """Write with `partitionBy`, first CSV, then JSON. Repartitioning by Leader avoids one file per Leader and task."""
    from daybreak.sources.dialects import spark_sql
    from daybreak.sources.spark.source import spark_session

    started = time.monotonic()
    session = spark_session(_OPTIONS)
    session.read.parquet(f"{with_text_ids(source)}/members.parquet").createOrReplaceTempView("members")
    rows = session.sql(spark_sql(members_model()))
    named = rows.withColumn("leader", rows["LEADER_ID"])
    writer = named.repartition("leader").sortWithinPartitions("leader", "MEMBER_ID").write.partitionBy("leader")
    # By default Spark truncates instants to milliseconds and trims texts.
    shared: dict[str, Any] = {"compression": "gzip", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    writer.csv(
        str(out / "csv"), **shared, header=True, quoteAll=True, escape='"', ignoreLeadingWhiteSpace=False,
        ignoreTrailingWhiteSpace=False,
    )  # fmt: skip
    writer.json(str(out / "json"), **shared)
    return _usage_since(started)


def daybreak(source: Path, out: Path) -> dict[str, Any]:
    """Export a folder of Parquet files with Spark tasks, like a run."""
    from daybreak.catalogue.models import load_models
    from daybreak.export.job import ExportJob, ExportResults
    from daybreak.filestore.local_disk import LocalDisk
    from daybreak.sources.spark.reading import TaskLimits
    from daybreak.sources.spark.source import SparkSource

    tables = with_text_ids(source)
    started = time.monotonic()
    sink = LocalDisk(out).stage("00000000-0000-4000-8000-000000000000")
    spark = SparkSource(str(tables), load_models(), settings=_OPTIONS, limits=TaskLimits(ENGINE_MEMORY_BYTES))
    with spark.open(AS_OF) as reading:
        reading.check()
        reading.export(ExportJob("members", ("csv", "json"), "igzip-2", threads=1), sink, ExportResults())
    sink.commit()
    return _usage_since(started)


def _usage_since(started: float) -> dict[str, Any]:
    """Return elapsed and CPU seconds of this process, Java and its Python workers."""
    wall = time.monotonic() - started
    return {"wall_seconds": wall, "cpu_seconds": cpu_of_tree(os.getpid())}
