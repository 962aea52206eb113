"""One reading of a Spark source: checks on the driver, exports in tasks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import add

import msgspec
import pyarrow as pa
from pyspark import Accumulator, TaskContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.models import Model
from daybreak.catalogue.resources import RESOURCES, Resource, resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES, SourceTable
from daybreak.domain.delta import LeaderDelta
from daybreak.domain.run_report import ReferentialFault
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export.job import ExportJob, ExportObserver, ResourceReport, RowCounts
from daybreak.export.parquet_writer import PARQUET
from daybreak.export.referential import check_queries
from daybreak.export.sql import literal
from daybreak.filestore.file_store import FileSink
from daybreak.sources.contract import (
    Columns,
    ModelRejected,
    check_models,
    check_tables,
    check_terms,
    require_distinct,
    usable_tables,
)
from daybreak.sources.dialects import spark_sql
from daybreak.sources.engine_reading import EngineReading
from daybreak.sources.malformed import MalformedPolicy, MalformedRows, apply_policy, count_conditions, find_malformed
from daybreak.sources.spark.errors import error_message, spark_faults
from daybreak.sources.spark.placement import repartition_by_leader
from daybreak.sources.spark.task import RANGE_ORDER, RANGE_SCHEMA, RESULT_SCHEMA, SparkTask

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
    ColumnType.BIGINT: "bigint",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "date",
    ColumnType.TIMESTAMP: "timestamp",
}
_UUID_LENGTH = 36
_UUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_UNDASHED_UUID = "^[{]?" + "-?".join(f"([0-9a-f]{{{digits}}})" for digits in (8, 4, 4, 4, 12)) + "[}]?$"
_PROGRESS_INTERVAL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Limits of each task: the memory of its engine, its threads, and the rows of a partition. Only a partition with a
    single larger Leader exceeds the number of rows.
    """

    memory_bytes: int
    threads: int = 1
    partition_rows: int = 500_000


class SparkReading(EngineReading):
    """One reading of a Spark source: a `Reading` whose files are written by tasks."""

    def __init__(
        self,
        session: SparkSession,
        as_of: datetime,
        models: Mapping[str, Model],
        tables: Mapping[str, Columns],
        limits: TaskLimits,
        policy: MalformedPolicy = "refuse",
    ) -> None:
        super().__init__(models, as_of, policy)
        self._session = session
        self._limits = limits
        check_tables("The source in Spark", tables, ACCEPTED_TYPES, self._required)
        self._tables = tables
        self._usable = usable_tables(tables, ACCEPTED_TYPES)
        for table in SOURCE_TABLES:
            if table in self._usable:
                self._create_view(table)
            elif table.name in tables:
                session.sql(f"CREATE OR REPLACE TEMP VIEW {table.name} AS SELECT * FROM raw_{table.name}")

    def query(self, sql: str) -> list[dict[str, object]]:
        """Return the rows of a query over the source tables, by column name. Raises Spark's errors."""
        found = self._session.sql(sql)
        require_distinct(found.columns)
        return [row.asDict() for row in found.collect()]

    def check(self) -> None:
        """Check rows, models, Leaders and terms. The tables were checked at opening."""
        self.malformed = [rows for table in self._usable for rows in self._refuse_malformed(table)]
        apply_policy(self._policy, self.malformed)
        check_models(self.models, self._columns_of_model, ACCEPTED_TYPES)
        with spark_faults("Table terms"):
            check_terms(self._required, lambda sql: self._session.sql(sql).first())
        self.leaders()

    def _create_view(self, table: SourceTable, refused: str = "FALSE") -> None:
        """Create a source table in the types of the catalogue, without the rows that match the condition `refused`."""
        columns = ", ".join(f"{_typed(column)} AS {column.name}" for column in table.columns)
        self._session.sql(
            f"CREATE OR REPLACE TEMP VIEW {table.name} AS SELECT {columns} FROM raw_{table.name} "
            f"WHERE NOT coalesce({refused}, FALSE)"
        )

    def _refuse_malformed(self, table: SourceTable) -> list[MalformedRows]:
        """Count the malformed rows, and exclude them from the view."""
        conditions = {
            column.name: f"({column.name} IS NOT NULL AND NOT ({_typed(column)}) RLIKE {literal(_UUID)})"
            for column in table.columns
            if column.type is ColumnType.UUID
        } | count_conditions(table)

        def rows_of(sql: str) -> list[Row]:
            return self._session.sql(sql.replace("AS VARCHAR)", "AS STRING)")).collect()

        with spark_faults(f"Table {table.name}"):
            found = find_malformed(table, conditions, f"raw_{table.name}", rows_of)
            if found:
                self._create_view(table, " OR ".join(conditions.values()))
        return found

    def _parents(self) -> list[Row]:
        with spark_faults("Table leaders"):
            return self._session.sql("SELECT leader_id, parent_leader_id FROM leaders").collect()

    def input_bytes(self) -> int:
        """Return 0: the source is not on this machine's disk."""
        return 0

    def confirm_unchanged(self) -> None:
        """Do nothing: Spark fails a job whose input files were removed or replaced."""

    def export(self, job: ExportJob, sink: FileSink, observer: ExportObserver) -> ResourceReport:
        """Export one resource in tasks. The sink is pickled for them."""
        context = self._session.sparkContext
        # Other machines have no state database, and own folders for temporary files.
        deltas = job.deltas and replace(job.deltas, bases=dict(job.deltas.bases), temp_dir=None)
        task = SparkTask(
            job=replace(job, threads=self._limits.threads, previous={}, deltas=None),
            sink=sink,
            memory_bytes=self._limits.memory_bytes,
            known=context.broadcast((frozenset(self.leaders()), dict(job.previous), deltas)),
        )
        observer.entries_written([task.write_header_only()])
        rows_done = context.accumulator(0)
        with spark_faults(f"Resource {job.resource}"):
            results = self._collect(self._task_results(task, rows_done), rows_done, observer)
        reports: list[ResourceReport] = []
        for kind, body in results:
            match kind:
                case "entries":
                    observer.entries_written(msgspec.json.decode(body, type=list[ManifestEntry]))
                case "deltas":
                    observer.deltas_made(msgspec.json.decode(body, type=list[LeaderDelta]))
                case "reused":
                    observer.leaders_reused(msgspec.json.decode(body, type=list[str]))
                case _:
                    reports.append(msgspec.json.decode(body, type=ResourceReport))
        report = _merged(job.resource, reports)
        observer.rows_done(report.rows)
        return report

    def source_rows(self, subject: str, sql: str) -> list[Sequence[object]]:
        with spark_faults(subject):
            return list(map(tuple, self._session.sql(sql).collect()))

    def cancel(self) -> None:
        self._session.sparkContext.cancelAllJobs()

    def referential_faults(self, resources: Collection[str], skipped: Collection[str] = ()) -> list[ReferentialFault]:
        """Check the relations between resources in Spark SQL."""
        known = self._session.createDataFrame(pa.table({"leader_id": pa.array(self.leaders(), pa.string())}))
        known.createOrReplaceTempView("known_leaders")
        for resource in RESOURCES:
            self._model_rows(self.models[resource.name]).createOrReplaceTempView(f"model_of_{resource.name}")

        def known_rows(resource: str) -> str:
            return f'(SELECT r.* FROM model_of_{resource} AS r JOIN known_leaders AS k ON k.leader_id = r."LEADER_ID")'

        faults = []
        with spark_faults("The referential checks"):
            for check in check_queries(known_rows, resources, skipped):
                row = self._session.sql(spark_sql(check.query)).first()
                if row is not None and row[0]:
                    faults.append(ReferentialFault(check.text, row[0], str(row[1]), check.code))
        return faults

    def _model_rows(self, model: Model) -> DataFrame:
        """Return the model's rows, with columns in order and identifiers as text."""
        sql = model.at(self._as_of)
        return self._session.sql(spark_sql(sql) if model.shipped else sql)

    def _columns_of_model(self, model: Model) -> Columns:
        try:
            fields = self._model_rows(model).schema.fields
        except (AnalysisException, ParseException) as error:
            raise ModelRejected(error_message(error)) from error
        return [(field.name, field.dataType.simpleString()) for field in fields]

    def _collect(self, frame: DataFrame, rows_done: Accumulator[int], observer: ExportObserver) -> list[Row]:
        with ThreadPoolExecutor(1, thread_name_prefix="spark-job") as executor:
            collecting = executor.submit(frame.collect)
            while not wait([collecting], _PROGRESS_INTERVAL_SECONDS).done:
                observer.rows_done(rows_done.value)
            return collecting.result()

    def _task_results(self, task: SparkTask, rows_done: Accumulator[int]) -> DataFrame:
        rows = self._model_rows(self.models[task.job.resource])
        counted = rows.groupBy("LEADER_ID").count().collect()
        counts: dict[str, int] = {row[0]: row[1] for row in counted if row[0] is not None}
        # One task has to write all rows of a Parquet file.
        split = [] if PARQUET in task.job.formats else self._leaders_to_split(counts)
        whole = {leader: count for leader, count in counts.items() if leader not in split}

        def export(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task.export(batches, rows_done)

        partitioned = repartition_by_leader(self._session, rows, whole, split, self._limits.partition_rows)
        exported = partitioned.mapInArrow(export, RESULT_SCHEMA)
        if not split:
            return exported
        split_rows = sum(counts[leader] for leader in split)
        return self._joined_results(task, rows, split, split_rows, rows_done).union(exported)

    def _joined_results(
        self, task: SparkTask, rows: DataFrame, split: Sequence[str], split_rows: int, rows_done: Accumulator[int]
    ) -> DataFrame:
        places = {leader: place for place, leader in enumerate(split)}

        def encode_range(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            return task.encode_range(batches, places, context.partitionId(), rows_done)

        ranges = -(-split_rows // self._limits.partition_rows)
        return (
            rows.where(f.col("LEADER_ID").isin(list(split)))
            .repartitionByRange(ranges, "LEADER_ID", *_key_order(resource_named(task.job.resource)))
            .mapInArrow(encode_range, RANGE_SCHEMA)
            .repartitionById(len(split), "place")
            .sortWithinPartitions(*RANGE_ORDER)
            .mapInArrow(task.join, RESULT_SCHEMA)
        )

    def _leaders_to_split(self, counts: Mapping[str, int]) -> list[str]:
        """Return the Leaders whose export would continue on one core after all other Leaders are exported."""
        share = sum(counts.values()) // self._session.sparkContext.defaultParallelism
        max_rows = max(share, 2 * self._limits.partition_rows)
        return [leader for leader in self.leaders() if counts.get(leader, 0) > max_rows]


def _key_order(resource: Resource) -> Iterator[SparkColumn]:
    """Yield the sort columns of the resource's rows in Spark: identifiers as lower-case text."""
    for name in resource.key:
        yield f.lower(name) if resource.column(name).type is ColumnType.UUID else f.col(name)


def _merged(resource: str, reports: Sequence[ResourceReport]) -> ResourceReport:
    none = RowCounts(nulls=dict.fromkeys(resource_named(resource).column_names, 0))
    return ResourceReport(
        resource=resource,
        rows=sum(report.rows for report in reports),
        leaders=sum(report.leaders for report in reports),
        reused_leaders=sum(report.reused_leaders for report in reports),
        counts=reduce(add, (report.counts for report in reports), none),
        sums={leader: sums for report in reports for leader, sums in report.sums.items()},
    )


def _typed(column: Column) -> str:
    """Return SQL for the value of a column of a source table in the type that the models expect."""
    if column.type is not ColumnType.UUID:
        return f"CAST({column.name} AS {_SPARK_TYPES[column.type]})"
    text = f"lower(CAST({column.name} AS string))"
    # Other engines, including those of the tasks, accept braces and missing dashes.
    dashed = f"regexp_replace({text}, {literal(_UNDASHED_UUID)}, '$1-$2-$3-$4-$5')"
    return f"CASE WHEN length({text}) = {_UUID_LENGTH} THEN {text} ELSE {dashed} END"
