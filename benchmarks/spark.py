"""The members job in Spark: its own partitioned writers, and Daybreak with Spark as the source.

Both have a core a thread in one process of Java, and read identifiers as text. Their seconds include the start of the
session, as a job that is submitted does.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import cores
from benchmarks.source import AS_OF, with_text_ids

_OPTIONS = {
    "spark.master": f"local[{cores()}]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
}


def partitioned(source: Path, out: Path) -> dict[str, Any]:
    """`partitionBy` for CSV, then for JSON, gzip; rows brought together by Leader first, or each Leader would fall into
    as many files as there are tasks.
    """
    from daybreak.catalogue.models import load_models
    from daybreak.sources.dialects import in_dialect
    from daybreak.sources.spark import spark_session

    started = time.monotonic()
    session = spark_session(_OPTIONS)
    session.read.parquet(str(with_text_ids(source))).createOrReplaceTempView("members")
    rows = session.sql(in_dialect(load_models()["members"].at(AS_OF), "spark"))
    named = rows.withColumn("leader", rows["LEADER_ID"])
    writer = named.repartition("leader").sortWithinPartitions("leader", "MEMBER_ID").write.partitionBy("leader")
    # By themselves they cut instants to milliseconds and spaces off the ends of texts.
    shared: dict[str, Any] = {"compression": "gzip", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    writer.csv(
        str(out / "csv"), **shared, header=True, quoteAll=True, escape='"', ignoreLeadingWhiteSpace=False,
        ignoreTrailingWhiteSpace=False,
    )  # fmt: skip
    writer.json(str(out / "json"), **shared)
    return _used(started)


def daybreak(source: Path, out: Path) -> dict[str, Any]:
    """A run's export from a folder of Parquet files, read and made into files by Spark's tasks."""
    from benchmarks.ways import MEMORY_BYTES
    from daybreak.catalogue.models import load_models
    from daybreak.domain.snapshot import ManifestEntry
    from daybreak.filestore.local_disk import LocalDisk
    from daybreak.sources.spark import SparkSource

    tables = _in_text(source)
    started = time.monotonic()
    sink = LocalDisk(out).stage("00000000-0000-4000-8000-000000000000")
    entries: list[ManifestEntry] = []
    with SparkSource(str(tables), load_models(), settings=_OPTIONS, task_memory_bytes=MEMORY_BYTES).open(AS_OF) as read:
        read.check()
        read.export_resource(
            "members", ("csv", "json"), sink, previous={}, compression="igzip-2", on_entries=entries.extend,
            on_carried=lambda _: None, on_progress=lambda _: None,
        )  # fmt: skip
    sink.seal()
    return _used(started)


def _in_text(source: Path) -> Path:
    """All tables of a platform with identifiers as text, made once."""
    import duckdb

    from daybreak.catalogue.columns import ColumnType
    from daybreak.catalogue.source_tables import SOURCE_TABLES

    folder = source.with_name(source.name + "-text")
    if (folder / "ready").exists():
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
    (folder / "ready").touch()
    return folder


def _used(started: float) -> dict[str, Any]:
    """Seconds since then, and those of this process, of Java and of its Pythons."""
    wall = time.monotonic() - started
    own = psutil.Process()
    cpu = sum(sum(one.cpu_times()[:4]) for one in [own, *own.children(recursive=True)])
    return {"wall_seconds": wall, "cpu_seconds": cpu}
