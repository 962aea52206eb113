"""What one Spark task does: land its Leaders' rows, export them, store the files, say what it made.

For Leaders that are split, some tasks make the lines of ranges of their rows, others join them to
files. Runs in the executors' Python, where Daybreak must be installed in the same version.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from daybreak import __version__
from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource
from daybreak.export.content import line_columns, text_format
from daybreak.export.ranges import join_ranges, range_lines
from daybreak.ports.files import FileSink
from daybreak.ports.sources import ResourceReport
from daybreak.sources.landing import Landing, open_landing
from daybreak.sources.spark_ranges import figures_row, joined_leaders, lines_row

_ENTRIES_AT_ONCE = 1000


class TaskReport(msgspec.Struct, frozen=True):
    """A ResourceReport's figures, for the Leaders of one task."""

    rows: int
    leaders: int
    carried: int
    unknown_leader_rows: int
    unexpected_values: Mapping[str, int]
    null_counts: Mapping[str, int]
    bytes_written: int


@dataclass(frozen=True, slots=True)
class SparkTask:
    """Everything a task needs, small enough to travel. `known` is a broadcast of
    (known Leaders, their fingerprints in the snapshot before)."""

    as_of: datetime
    memory_bytes: int
    threads: int
    resource: str = ""
    formats: tuple[str, ...] = ()
    compression: str = ""
    sink: Any = None
    known: Any = None
    version: str = __version__

    def of(self, resource: str, formats: tuple[str, ...], compression: str, sink: FileSink, known: Any) -> SparkTask:
        """The same task for one resource."""
        return replace(
            self,
            resource=resource,
            formats=formats,
            compression=compression,
            sink=sink,
            known=known,
        )

    def header_only(self) -> ManifestEntry:
        """Stores the shared file of Leaders without rows; done once, by the driver."""
        entries: list[ManifestEntry] = []
        self._export([], frozenset(), {}, entries, [])
        return entries[0]

    def run(self, batches: Iterator[pa.RecordBatch], rows_done: Any) -> Iterator[pa.RecordBatch]:
        """The body of `mapInArrow` for whole Leaders: rows (kind, body) of manifest entries, carried Leaders and
        the figures, all as JSON.
        """
        first = next(batches, None)
        if first is None:
            return
        entries: list[ManifestEntry] = []
        carried: list[str] = []
        known, previous = self.known.value
        report = self._export(_with_first(first, batches), known, previous, entries, carried)
        rows_done.add(report.rows)
        yield from _results(report, [entry for entry in entries if entry.client_id], carried)

    def lines(
        self, batches: Iterator[pa.RecordBatch], places: Mapping[str, int], number: int, rows_done: Any
    ) -> Iterator[pa.RecordBatch]:
        """The body of `mapInArrow` for range `number` of the split Leaders' rows: rows for `join`, which takes a
        Leader at its place.
        """
        first = next(batches, None)
        if first is None:
            return
        resource = resource_named(self.resource)
        columns = line_columns(text_format(resource, name) for name in self.formats)
        with self._landed(_with_first(first, batches), frozenset(places)) as reading:
            for figures, runs in range_lines(reading, resource, columns, threads=self.threads):
                place = places[figures.sums.client_id]
                yield figures_row(place, number, figures)
                for position, run in enumerate(runs):
                    yield lines_row(place, number, position, run, columns)
                rows_done.add(figures.sums.rows)

    def join(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The body of `mapInArrow` for split Leaders: from the rows of `lines` in RANGE_ORDER to those of `run`."""
        _, previous = self.known.value
        for figures, lines in joined_leaders(batches):
            entries: list[ManifestEntry] = []
            carried: list[str] = []
            report = join_ranges(
                resource_named(self.resource),
                self.formats,
                self.sink,
                figures,
                lines,
                previous=previous,
                threads=self.threads,
                compression=self.compression,
                on_entries=entries.extend,
                on_carried=carried.extend,
            )
            yield from _results(report, entries, carried)

    def _export(
        self,
        batches: Iterable[pa.RecordBatch],
        known: frozenset[str],
        previous: Mapping[str, str],
        entries: list[ManifestEntry],
        carried: list[str],
    ) -> ResourceReport:
        with self._landed(batches, known) as reading:
            return export_resource(
                reading,
                self.resource,
                self.formats,
                self.sink,
                previous=previous,
                threads=self.threads,
                compression=self.compression,
                on_entries=entries.extend,
                on_carried=carried.extend,
            )

    @contextmanager
    def _landed(self, batches: Iterable[pa.RecordBatch], known: frozenset[str]) -> Iterator[_TaskReading]:
        """The rows in an engine of the task's own. Raises RunError when this is not the driver's version: other
        versions may give other bytes.
        """
        if self.version != __version__:
            raise RunError(
                f"The driver has daybreak {self.version}, an executor has {__version__}: they must be the same."
            )
        with (
            tempfile.TemporaryDirectory(prefix="daybreak-task-") as folder,
            open_landing(memory_bytes=self.memory_bytes, threads=self.threads, temp_dir=Path(folder)) as landing,
        ):
            arrivals = [lambda: nullcontext(_stream(batches))] if batches else []
            select = landing.land(resource_named(self.resource), arrivals)
            yield _TaskReading(landing, self.as_of, select, sorted(known))


class _TaskReading:
    """The rows of one task, as a Reading for the export alone."""

    def __init__(self, landing: Landing, as_of: datetime, select: str, known: list[str]) -> None:
        self._landing, self.as_of, self._select, self._known = landing, as_of, select, known

    def check(self) -> None:
        """The driver has checked."""

    def leaders(self) -> list[str]:
        return self._known

    def input_bytes(self) -> int:
        return 0

    def rows(self, resource: str) -> str:  # noqa: ARG002 - a task has the rows of one
        return self._select

    def cursor(self) -> Any:
        return self._landing.cursor()

    def confirm(self) -> None:
        """The driver confirms."""


def _with_first(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _stream(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    iterator = iter(batches)
    first = next(iterator)
    return pa.RecordBatchReader.from_batches(first.schema, _with_first(first, iterator))


def _results(report: ResourceReport, entries: list[ManifestEntry], carried: list[str]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(entries), _ENTRIES_AT_ONCE):
        yield _result("entries", entries[start : start + _ENTRIES_AT_ONCE])
    if carried:
        yield _result("carried", carried)
    yield _result(
        "report",
        TaskReport(
            report.rows,
            report.leaders,
            report.carried,
            report.unknown_leader_rows,
            report.unexpected_values,
            report.null_counts,
            report.bytes_written,
        ),
    )


def _result(kind: str, value: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"kind": [kind], "body": [msgspec.json.encode(value).decode()]})
