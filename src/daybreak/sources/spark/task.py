"""One Spark task: it stages its Leaders' rows, exports them, stores the files, and returns manifest entries.

For split Leaders some tasks encode ranges of rows and others join them. Tasks run in the executors' Python, where the
same version of Daybreak must be installed.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
from pyspark import Accumulator
from pyspark.core.broadcast import Broadcast

from daybreak import __version__
from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export.job import DeltaJob, ExportJob, ExportResults, ResourceReport
from daybreak.export.key_ranges import LeaderRange, join_ranges, range_chunks
from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.resource_export import export_resource
from daybreak.export.text_formats import text_format
from daybreak.filestore.file_store import FileSink
from daybreak.sources.staging import StagingTables, open_staging

RESULT_SCHEMA = "kind string, body string"
"""Rows that tasks return: `entries`, `deltas`, `reused` and `report`, with a body in JSON."""
_ENTRIES_PER_ROW = 1000

KnownLeaders = tuple[frozenset[str], Mapping[str, str], DeltaJob | None]
"""The Leaders with files, their fingerprints in the previous snapshot, and the parameters of deltas."""

RANGE_SCHEMA = "place int, kind int, range int, position int, row_count int, totals string, csv binary, json binary"
"""`place` numbers the split Leaders. Each range is one row with its totals (kind 0), then rows of lines (kind 1)."""
RANGE_ORDER = ("place", "kind", "range", "position")
_TOTALS, _LINES = 0, 1
_ARROW_SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in (*RANGE_ORDER, "row_count")),
        ("totals", pa.string()),
        ("csv", pa.binary()),
        ("json", pa.binary()),
    ]
)


def totals_row(place: int, number: int, leader_range: LeaderRange) -> pa.RecordBatch:
    """Return the row of totals of a Leader's range `number`."""
    return _row(place, _TOTALS, number, totals=msgspec.json.encode(leader_range).decode())


def lines_row(place: int, number: int, position: int, chunk: LeaderChunk, kinds: Iterable[str]) -> pa.RecordBatch:
    """Return a row of lines: the chunk at `position` of range `number`, with these kinds of line."""
    lines = {kind: bytes(chunk.lines[kind]) for kind in kinds}
    return _row(place, _LINES, number, position=position, row_count=chunk.rows, **lines)


def split_leaders(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[list[LeaderRange], Iterator[LeaderChunk]]]:
    """Yield the ranges and chunks of each Leader, from rows in RANGE_ORDER. Consume the chunks of one Leader before you
    request the next Leader.
    """
    rows = ((batch, index) for batch in batches for index in range(batch.num_rows))
    for _, leader_rows in groupby(rows, key=lambda row: _cell("place", *row)):
        kinds = groupby(leader_rows, key=lambda row: _cell("kind", *row))
        _, totals = next(kinds)
        ranges = [msgspec.json.decode(_cell("totals", *row), type=LeaderRange) for row in totals]
        yield ranges, (_chunk(ranges[0].totals.client_id, *row) for _, lines in kinds for row in lines)


def _row(
    place: int, kind: int, number: int, *, position: int = 0, row_count: int = 0, **cells: str | bytes
) -> pa.RecordBatch:
    row: dict[str, Any] = {"place": place, "kind": kind, "range": number, "position": position, "row_count": row_count}
    return pa.RecordBatch.from_pylist([row | cells], schema=_ARROW_SCHEMA)


def _cell(name: str, batch: pa.RecordBatch, index: int) -> Any:
    return batch.column(name)[index].as_py()


def _chunk(client_id: str, batch: pa.RecordBatch, index: int) -> LeaderChunk:
    lines = {
        kind: memoryview(batch.column(kind)[index].as_py())
        for kind in ("csv", "json")
        if batch.column(kind)[index].is_valid
    }
    return LeaderChunk(client_id, _cell("row_count", batch, index), lines)


@dataclass(frozen=True, slots=True)
class SparkTask:
    """Parameters of a task, small enough to send to every executor. `job` has no previous fingerprints and files."""

    job: ExportJob
    sink: FileSink
    memory_bytes: int
    known: Broadcast[KnownLeaders]
    version: str = __version__

    def write_header_only(self) -> ManifestEntry:
        """Write the shared files of Leaders without rows. The driver calls this once."""
        results = ExportResults()
        with self._staged_rows([], frozenset()) as rows:
            export_resource(rows, self.job, self.sink, results)
        return results.entries[0]

    def export(self, batches: Iterator[pa.RecordBatch], rows_done: Accumulator[int]) -> Iterator[pa.RecordBatch]:
        """Export whole Leaders: a function for `mapInArrow`, to rows of RESULT_SCHEMA."""
        first = next(batches, None)
        if first is None:
            return
        known, previous, deltas = self.known.value
        results = ExportResults()
        with self._staged_rows(chain((first,), batches), known) as rows:
            job = replace(self.job, previous=previous, deltas=deltas)
            report = export_resource(rows, job, self.sink, results)
        rows_done.add(report.rows)
        # The driver has written the header-only files.
        results.entries = [entry for entry in results.entries if entry.client_id]
        yield from _result_rows(results, report)

    def encode_range(
        self, batches: Iterator[pa.RecordBatch], places: Mapping[str, int], number: int, rows_done: Accumulator[int]
    ) -> Iterator[pa.RecordBatch]:
        """Encode range `number` of the split Leaders, which `places` numbers: a function for `mapInArrow`, to rows of
        RANGE_SCHEMA.
        """
        first = next(batches, None)
        if first is None:
            return
        resource = resource_named(self.job.resource)
        kinds = {text_format(resource, name).line_kind for name in self.job.formats}
        with self._staged_rows(chain((first,), batches), frozenset(places)) as rows:
            for leader_range, chunks in range_chunks(rows, resource, threads=self.job.threads):
                place = places[leader_range.totals.client_id]
                yield totals_row(place, number, leader_range)
                for position, chunk in enumerate(chunks):
                    yield lines_row(place, number, position, chunk, kinds)
                rows_done.add(leader_range.totals.rows)

    def join(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join split Leaders: a function for `mapInArrow`, from rows of `encode_range` in RANGE_ORDER to rows of
        RESULT_SCHEMA.
        """
        _, previous, deltas = self.known.value
        job = replace(self.job, previous=previous, deltas=deltas)
        for ranges, chunks in split_leaders(batches):
            results = ExportResults()
            report = join_ranges(job, ranges, chunks, self.sink, results)
            yield from _result_rows(results, report)

    @contextmanager
    def _staged_rows(self, batches: Iterable[pa.RecordBatch], known: frozenset[str]) -> Iterator["_StagedRows"]:
        """Stage rows in a separate engine. Raises RunError if the executor has another version of Daybreak than the
        driver, because another version may write different bytes.
        """
        if self.version != __version__:
            raise RunError(
                f"The driver has daybreak {self.version}, an executor has {__version__}. Install the same version."
            )
        with (
            tempfile.TemporaryDirectory(prefix="daybreak-task-") as folder,
            open_staging(memory_bytes=self.memory_bytes, threads=self.job.threads, temp_dir=Path(folder)) as staging,
        ):
            streams = [lambda: nullcontext(_stream(batches))] if batches else []
            query = staging.load(resource_named(self.job.resource), streams)
            yield _StagedRows(staging, query, sorted(known))


@dataclass(frozen=True, slots=True)
class _StagedRows:
    """The rows of one task, all of one resource: `EmbeddedRows` for the export."""

    staging: StagingTables
    staged_query: str
    known: list[str]

    def leaders(self) -> list[str]:
        return self.known

    def rows_query(self, resource: str) -> str:
        del resource
        return self.staged_query

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self.staging.cursor()


def _stream(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    iterator = iter(batches)
    first = next(iterator)
    reader = pa.RecordBatchReader.from_batches(first.schema, chain((first,), iterator))
    # The session's time zone is UTC. The engine cannot convert the earliest instant of Arrow, which other sources read.
    instants = pa.timestamp("us")
    return reader.cast(
        pa.schema([each.with_type(instants) if pa.types.is_timestamp(each.type) else each for each in first.schema])
    )


def _result_rows(results: ExportResults, report: ResourceReport) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(results.entries), _ENTRIES_PER_ROW):
        yield _result_row("entries", results.entries[start : start + _ENTRIES_PER_ROW])
    for start in range(0, len(results.deltas), _ENTRIES_PER_ROW):
        yield _result_row("deltas", results.deltas[start : start + _ENTRIES_PER_ROW])
    if results.reused:
        yield _result_row("reused", results.reused)
    yield _result_row("report", report)


def _result_row(kind: str, value: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"kind": [kind], "body": [msgspec.json.encode(value).decode()]})
