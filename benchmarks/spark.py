"""Export of the Members in Spark: by its partitioned writers, and by Daybreak with Spark as the source.

Both use one Java process with one thread per core, and read identifiers as text. Their time includes the start of the
session, as for a submitted job.
"""

import time
from pathlib import Path
from typing import Any

from benchmarks.machine import ENGINE_MEMORY_BYTES, cores
from benchmarks.source import AS_OF, with_text_ids

_OPTIONS = {
    "spark.master": f"local[{cores()}]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
}


def partitioned(source: Path, out: Path) -> dict[str, Any]:
    """Write with `partitionBy`, first CSV, then JSON. Repartitioning by Leader avoids one file per Leader and task."""
    from daybreak.catalogue.models import load_models
    from daybreak.sources.dialects import spark_sql
    from daybreak.sources.spark.source import spark_session

    started = time.monotonic()
    session = spark_session(_OPTIONS)
    session.read.parquet(str(with_text_ids(source))).createOrReplaceTempView("members")
    rows = session.sql(spark_sql(load_models()["members"].at(AS_OF)))
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

    tables = _tables_with_text_ids(source)
    started = time.monotonic()
    sink = LocalDisk(out).stage("00000000-0000-4000-8000-000000000000")
    spark = SparkSource(str(tables), load_models(), settings=_OPTIONS, limits=TaskLimits(ENGINE_MEMORY_BYTES))
    with spark.open(AS_OF) as reading:
        reading.check()
        reading.export(ExportJob("members", ("csv", "json"), "igzip-2", threads=1), sink, ExportResults())
    sink.commit()
    return _usage_since(started)


def _tables_with_text_ids(source: Path) -> Path:
    """Create, once, all tables of a platform with identifiers as text, and return their folder."""
    import duckdb

    from daybreak.catalogue.columns import ColumnType
    from daybreak.catalogue.source_tables import SOURCE_TABLES

    folder = source.with_name(source.name + "-text")
    if (folder / ".ready").exists():
        return folder
    folder.mkdir(exist_ok=True)
    with duckdb.connect() as engine:
        for table in SOURCE_TABLES:
            columns = ", ".join(
                f"CAST({column.name} AS VARCHAR) AS {column.name}" if column.type is ColumnType.UUID else column.name
                for column in table.columns
            )
            engine.execute(
                f"COPY (SELECT {columns} FROM '{source / table.name}.parquet') TO '{folder / table.name}.parquet'"
            )
    (folder / ".ready").touch()
    return folder


def _usage_since(started: float) -> dict[str, Any]:
    """Return elapsed and CPU seconds of this process, Java and its Python workers."""
    import psutil

    wall = time.monotonic() - started
    own = psutil.Process()
    cpu = sum(sum(one.cpu_times()[:4]) for one in [own, *own.children(recursive=True)])
    return {"wall_seconds": wall, "cpu_seconds": cpu}
