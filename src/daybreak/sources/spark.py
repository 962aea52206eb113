"""Apache Spark as the source: the models run in Spark SQL, tasks make and store the files.

Rows are spread over tasks by Leader. A task lands its rows in an embedded engine of its own and runs
the same export as everywhere else, so the bytes are the same; it stores the files itself and returns
manifest entries alone. A task that is tried again, or twice at once, writes the same bytes under
the same names.

A Leader with more rows than a task should take has a task of its own, and those start first, so that
no other Leader waits behind it. One so large that all would wait for it is split: many tasks make
the lines of ranges of its rows, and one joins them to the same files.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import Accumulator, SparkContext, TaskContext
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.models import REPEATED_TERMS, Model, check_leader_chain, check_terms
from daybreak.catalogue.resources import RESOURCES, Resource, resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError, SourceUnavailable
from daybreak.domain.identity import is_id
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export.parquet_files import PARQUET
from daybreak.export.referential import reference_checks
from daybreak.ports.files import FileSink
from daybreak.ports.sources import ReferentialFault, ResourceReport
from daybreak.sources.contract import Columns, check_tables, model_faults
from daybreak.sources.dialects import in_dialect
from daybreak.sources.spark_faults import spark_faults, words_of
from daybreak.sources.spark_placing import spread
from daybreak.sources.spark_ranges import RANGE_ORDER, RANGE_ROWS
from daybreak.sources.spark_tables import show_tables
from daybreak.sources.spark_task import SparkTask, TaskReport

ACCEPTED_TYPES: Mapping[ColumnType, tuple[str, ...]] = {
    ColumnType.UUID: ("string", "char", "varchar"),
    ColumnType.TEXT: ("string", "char", "varchar"),
    ColumnType.BIGINT: ("bigint", "int", "smallint", "tinyint", "decimal"),
    ColumnType.BOOLEAN: ("boolean",),
    ColumnType.DATE: ("date",),
    ColumnType.TIMESTAMP: ("timestamp", "timestamp_ntz"),
}
_SPARK_TYPES = {
    ColumnType.TEXT: "string",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "date",
    ColumnType.TIMESTAMP: "timestamp",
}
_UUID_LENGTH = 36
_OTHER_UUID = "^[{]?" + "-?".join(f"([0-9a-f]{{{digits}}})" for digits in (8, 4, 4, 4, 12)) + "[}]?$"
_PARTITION_ROWS = 500_000
_POLL_SECONDS = 0.5
_RESULT = "kind string, body string"


def spark_session(settings: Mapping[str, str]) -> SparkSession:
    """The running session, or one from the ordinary Spark settings and these; in UTC."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName("daybreak")
    for name, value in {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except PySparkException as error:
        raise SourceUnavailable(f"No Spark session: {words_of(error)}") from error
    _end_with_this_process(session.sparkContext)
    return session


@cache
def _end_with_this_process(context: SparkContext) -> None:
    """Has Spark end its log and give back its executors before this process is gone: its JVM may go at the same moment,
    as everything in a container does.
    """

    def end() -> None:
        # It may have died before.
        with suppress(Py4JError, OSError):
            context.stop()

    atexit.register(end)


class SparkSource:
    """A RowSource over whatever a Spark session can read.

    `location` is a folder or address of Parquet (`TABLE.parquet` or `TABLE/` in it), or
    `catalog:NAME` for a database of the session's catalogue (Iceberg, Delta, Hive, JDBC tables).
    `settings` are Spark's own (`spark.master` and so on). `task_memory_bytes` is for the engine in
    each task, `task_threads` for its compression.
    """

    engine = "spark"

    def __init__(
        self,
        location: str,
        models: Mapping[str, Model],
        *,
        settings: Mapping[str, str],
        task_memory_bytes: int,
        task_threads: int = 1,
        partition_rows: int = _PARTITION_ROWS,
    ) -> None:
        self._location = location
        self._models = models
        self._settings = settings
        self._task_memory_bytes = task_memory_bytes
        self._task_threads = task_threads
        self._partition_rows = partition_rows

    @contextmanager
    def open(self, as_of: datetime) -> Iterator[SparkReading]:
        """A reading in a session of its own catalogue of views. Raises SourceError."""
        session = spark_session(self._settings).newSession()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        with spark_faults("The source"):
            found = show_tables(session, self._location)
        yield SparkReading(
            session,
            as_of,
            self._models,
            found,
            partition_rows=self._partition_rows,
            task=SparkTask(as_of, self._task_memory_bytes, self._task_threads),
        )

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query of the operator's own (`[directory]`), by column name."""
        with self.open(datetime.now(UTC)) as reading, spark_faults("A query under [directory]"):
            return reading.answer(sql)


class SparkReading:
    """One reading; a `daybreak.ports.sources.DistributedReading`."""

    def __init__(
        self,
        session: SparkSession,
        as_of: datetime,
        models: Mapping[str, Model],
        tables: Mapping[str, Columns],
        *,
        partition_rows: int,
        task: SparkTask,
    ) -> None:
        self._session = session
        self._as_of = as_of
        self._models = models
        self._partition_rows = partition_rows
        self._task = task
        self._leaders: list[str] | None = None
        check_tables("The source in Spark", tables, ACCEPTED_TYPES)
        for table in SOURCE_TABLES:
            columns = ", ".join(map(_typed, table.columns))
            session.sql(f"CREATE OR REPLACE TEMP VIEW {table.name} AS SELECT {columns} FROM raw_{table.name}")

    @property
    def as_of(self) -> datetime:
        return self._as_of

    def answer(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query over the source's tables, by column name. Raises what Spark raises."""
        return [row.asDict() for row in self._session.sql(sql).collect()]

    def check(self) -> None:
        """Holds the models, Leaders and terms to the contract."""
        faults: list[str] = []
        for resource in RESOURCES:
            model = self._models[resource.name]
            try:
                fields = self._model(resource.name).schema.fields
            except (AnalysisException, ParseException) as error:
                faults.append(f"{model.origin}: {words_of(error)}")
                continue
            got = [(field.name, field.dataType.simpleString()) for field in fields]
            faults += model_faults(resource, model, got, ACCEPTED_TYPES)
        if faults:
            raise SourceError("The models are not as expected:\n  " + "\n  ".join(faults))
        with spark_faults("Table leaders"):
            pairs = self._session.sql("SELECT leader_id, parent_leader_id FROM leaders").collect()
        with spark_faults("Table terms"):
            repeated = self._session.sql(REPEATED_TERMS).first()
        # Other engines refuse them by type; here a Leader of another name would have no rows.
        stranger = next((each for row in pairs for each in row if each is not None and not is_id(each)), None)
        if stranger is not None:
            raise SourceError(f"Table leaders: {stranger!r} is no UUID.")
        check_leader_chain((row[0], row[1]) for row in pairs)
        check_terms(repeated)

    def leaders(self) -> list[str]:
        """Every Leader of table leaders, sorted."""
        if self._leaders is None:
            with spark_faults("Table leaders"):
                rows = self._session.sql("SELECT leader_id FROM leaders WHERE leader_id IS NOT NULL").collect()
            self._leaders = sorted(row[0] for row in rows)
        return self._leaders

    def input_bytes(self) -> int:
        """0: the source is not on this machine's disk."""
        return 0

    def confirm(self) -> None:
        """Nothing to ask: Spark fails a job whose input files are gone or replaced."""

    def export_resource(
        self,
        resource: str,
        formats: Sequence[str],
        sink: FileSink,
        *,
        previous: Mapping[str, str],
        compression: str,
        on_entries: Callable[[list[ManifestEntry]], None],
        on_carried: Callable[[list[str]], None],
        on_progress: Callable[[int], None],
    ) -> ResourceReport:
        """As `daybreak.export.export_resource`. `sink` must stand being pickled."""
        context = self._session.sparkContext
        task = self._task.of(
            resource,
            tuple(formats),
            compression,
            sink,
            context.broadcast((frozenset(self.leaders()), dict(previous))),
        )
        on_entries([task.header_only()])
        rows_done = context.accumulator(0)

        with spark_faults(f"Resource {resource}"):
            made = self._made(self._model(resource), task, rows_done)
            with ThreadPoolExecutor(1, thread_name_prefix="spark-job") as pool:
                collecting = pool.submit(made.collect)
                while not wait([collecting], _POLL_SECONDS).done:
                    on_progress(rows_done.value)
                results = collecting.result()
        reports: list[TaskReport] = []
        for kind, body in results:
            if kind == "entries":
                on_entries(msgspec.json.decode(body, type=list[ManifestEntry]))
            elif kind == "carried":
                on_carried(msgspec.json.decode(body, type=list[str]))
            else:
                reports.append(msgspec.json.decode(body, type=TaskReport))
        report = _together(resource, reports)
        on_progress(report.rows)
        return report

    def referential_faults(self, filled: Collection[str]) -> list[ReferentialFault]:
        """As `daybreak.export.referential_faults`, asked of Spark."""
        known = self._session.createDataFrame(pa.table({"leader_id": pa.array(self.leaders(), pa.string())}))
        known.createOrReplaceTempView("known_leaders")
        for resource in RESOURCES:
            self._model(resource.name).createOrReplaceTempView(f"model_of_{resource.name}")
        faults = []
        with spark_faults("The referential checks"):
            for check, query in reference_checks(
                lambda resource: (
                    f'(SELECT r.* FROM model_of_{resource} AS r JOIN known_leaders AS k ON k.leader_id = r."LEADER_ID")'
                ),
                filled,
            ):
                row = self._session.sql(in_dialect(query, "spark")).first()
                if row is not None and row[0]:
                    faults.append(ReferentialFault(check, row[0], str(row[1])))
        return faults

    def _model(self, resource: str) -> DataFrame:
        """The model's rows: columns in order and in our types, identifiers as text."""
        sql = in_dialect(self._models[resource].at(self._as_of), "spark")
        return self._session.sql(sql)

    def _made(self, rows: DataFrame, task: SparkTask, rows_done: Accumulator[int]) -> DataFrame:
        """What the tasks tell, by kind and body, once it is collected."""
        counted = rows.groupBy("LEADER_ID").count().collect()
        counts: dict[str, int] = {row[0]: row[1] for row in counted if row[0] is not None}
        # A Parquet file has one writer from its first row on.
        split = [] if PARQUET in task.formats else self._too_large(counts)
        whole = {leader: count for leader, count in counts.items() if leader not in split}

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task.run(batches, rows_done)

        made = spread(self._session, rows, whole, split, self._partition_rows).mapInArrow(run, _RESULT)
        if not split:
            return made
        places = {leader: place for place, leader in enumerate(split)}

        def lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            return task.lines(batches, places, context.partitionId(), rows_done)

        ranges = -(-sum(counts[leader] for leader in split) // self._partition_rows)
        joined = (
            rows.where(f.col("LEADER_ID").isin(split))
            .repartitionByRange(ranges, "LEADER_ID", *_key(resource_named(task.resource)))
            .mapInArrow(lines, RANGE_ROWS)
            .repartitionById(len(split), "place")
            .sortWithinPartitions(*RANGE_ORDER)
            .mapInArrow(task.join, _RESULT)
        )
        return joined.union(made)

    def _too_large(self, counts: Mapping[str, int]) -> list[str]:
        """Leaders that would keep a core busy when the others are done."""
        share = sum(counts.values()) // self._session.sparkContext.defaultParallelism
        most = max(share, 2 * self._partition_rows)
        return [leader for leader in self.leaders() if counts.get(leader, 0) > most]


def _key(resource: Resource) -> Iterator[SparkColumn]:
    """The order of the resource's rows as Spark's own, identifiers as text of one case."""
    for name in resource.key:
        yield f.lower(name) if resource.column(name).type is ColumnType.UUID else f.col(name)


def _together(resource: str, reports: Sequence[TaskReport]) -> ResourceReport:
    unexpected: dict[str, int] = {}
    nulls = {column.name: 0 for column in resource_named(resource).columns}
    for report in reports:
        for name, count in report.unexpected_values.items():
            unexpected[name] = unexpected.get(name, 0) + count
        for name, count in report.null_counts.items():
            nulls[name] += count
    return ResourceReport(
        resource=resource,
        rows=sum(report.rows for report in reports),
        leaders=sum(report.leaders for report in reports),
        carried=sum(report.carried for report in reports),
        unknown_leader_rows=sum(report.unknown_leader_rows for report in reports),
        unexpected_values=unexpected,
        null_counts=nulls,
        bytes_written=sum(report.bytes_written for report in reports),
    )


def _typed(column: Column) -> str:
    if column.type is ColumnType.BIGINT:
        # Its own cast of a DECIMAL cuts fractions off, where the other engines round them.
        return f"CAST(round({column.name}) AS bigint) AS {column.name}"
    if column.type is not ColumnType.UUID:
        return f"CAST({column.name} AS {_SPARK_TYPES[column.type]}) AS {column.name}"
    text = f"lower(CAST({column.name} AS string))"
    # With braces or without dashes it is the same to the other engines, and to the tasks'.
    dashed = f"regexp_replace({text}, '{_OTHER_UUID}', '$1-$2-$3-$4-$5')"
    return f"CASE WHEN length({text}) = {_UUID_LENGTH} THEN {text} ELSE {dashed} END AS {column.name}"
