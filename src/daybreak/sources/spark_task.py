"""What one Spark task does: land its Leaders' rows, export them, store the files, say what it made.

Runs in the executors' Python, where Daybreak must be installed in the same version.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from daybreak.catalogue.resources import resource_named
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource
from daybreak.ports import FileSink, ResourceReport, ResourceRows
from daybreak.sources.landing import Landing, open_landing

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

    def run(self, batches: Iterator[pa.RecordBatch], rows_done: Any) -> Iterator[Any]:
        """The body of `mapInArrow`: rows (kind, body) of manifest entries, carried Leaders and the
        figures, all as JSON."""
        first = next(batches, None)
        if first is None:
            return
        entries: list[ManifestEntry] = []
        carried: list[str] = []
        known, previous = self.known.value
        report = self._export(_with_first(first, batches), known, previous, entries, carried)
        rows_done.add(report.rows)
        own = [entry for entry in entries if entry.client_id]
        for start in range(0, len(own), _ENTRIES_AT_ONCE):
            yield _result("entries", own[start : start + _ENTRIES_AT_ONCE])
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

    def _export(
        self,
        batches: Iterable[pa.RecordBatch],
        known: frozenset[str],
        previous: Mapping[str, str],
        entries: list[ManifestEntry],
        carried: list[str],
    ) -> ResourceReport:
        with (
            tempfile.TemporaryDirectory(prefix="daybreak-task-") as folder,
            open_landing(memory_bytes=self.memory_bytes, threads=self.threads, temp_dir=Path(folder)) as landing,
        ):
            resource = resource_named(self.resource)
            arrivals = [lambda: nullcontext(_stream(batches))] if batches else []
            select = landing.land(resource, arrivals)
            return export_resource(
                _TaskReading(landing, self.as_of, select, sorted(known)),
                resource,
                self.formats,
                self.sink,
                previous=previous,
                threads=self.threads,
                compression=self.compression,
                on_entries=entries.extend,
                on_carried=carried.extend,
            )


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

    def rows(self, resource: str) -> ResourceRows:  # noqa: ARG002 - a task has the rows of one
        return ResourceRows(self._select, repeatable=True)

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


def _result(kind: str, value: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"kind": [kind], "body": [msgspec.json.encode(value).decode()]})
