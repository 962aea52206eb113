"""Exports one resource: from rows in the embedded engine to files and manifest entries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from threading import RLock

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.bounded_map import bounded_map
from daybreak.export.buckets import Spill
from daybreak.export.delta.kernel.kernel import merge_engines
from daybreak.export.engine import engine_faults, temp_folder
from daybreak.export.gzip_member import CODECS, GzipMember
from daybreak.export.job import ExportJob, ExportObserver, ResourceReport, RowCounts
from daybreak.export.leader_chunks import LeaderChunk, LineBundle
from daybreak.export.leader_files import LeaderFileWriter
from daybreak.export.leader_rows import leader_bundles
from daybreak.export.parquet_files import ParquetFiles
from daybreak.export.parquet_writer import PARQUET, PARQUET_VERSION
from daybreak.export.survey import SurveyedLeader, surveyed
from daybreak.export.text_formats import text_format
from daybreak.export.work_tables import EmbeddedRows, WorkTables, open_work_tables
from daybreak.filestore.file_store import FileSink

_SMALL_BYTES = 64 << 10
"""Size of a Leader's lines below which writing its files needs the interpreter's lock for most of the time."""


def export_resource(rows: EmbeddedRows, job: ExportJob, sink: FileSink, observer: ExportObserver) -> ResourceReport:
    """Export one resource as `Reading.export` does."""
    resource = resource_named(job.resource)
    with (
        engine_faults(f"Resource {resource.name}"),
        open_work_tables(rows, resource) as tables,
        ThreadPoolExecutor(job.threads, thread_name_prefix="export") as executor,
    ):
        export = _ResourceExport(tables, job, sink, observer, executor)
        observer.entries_written([export.write_header_only()])
        totals, counts = tables.totals(frozenset(rows.leaders()))
        leaders = surveyed(totals, resource, encoding_of(job))
        # They need as much memory as the Leaders, until the export ends.
        del totals
        changed = {one.client_id: one for one in leaders if job.previous.get(one.client_id) != one.fingerprint}
        reused = [leader for leader in leaders if leader.client_id not in changed]
        if reused:
            observer.leaders_reused([leader.client_id for leader in reused])
        export.add_rows(sum(leader.rows for leader in reused))
        if changed:
            # A filter of all rows would take time for nothing.
            export.write(changed, tables.rows_of(list(changed)) if reused else tables.rows)
    report = resource_report(job, leaders, counts, reused_leaders=len(reused))
    return replace(report, spill_bytes=export.spill_bytes)


def encoding_of(job: ExportJob) -> str:
    """Return the settings that affect the bytes of a Leader's files. They are part of the fingerprint."""
    formats = ",".join(job.formats).replace(PARQUET, f"{PARQUET}{PARQUET_VERSION}")
    return f"{job.compression} {formats}"


def resource_report(
    job: ExportJob, leaders: Sequence[SurveyedLeader], counts: RowCounts, *, reused_leaders: int = 0
) -> ResourceReport:
    """Return the report of an export. `leaders` are the known Leaders with rows."""
    return ResourceReport(
        resource=job.resource,
        rows=sum(leader.rows for leader in leaders),
        leaders=len(leaders),
        reused_leaders=reused_leaders,
        counts=counts,
        sums={leader.client_id: leader.figures for leader in leaders},
    )


@dataclass(slots=True)
class _ResourceExport:
    """The export of one resource. `rows` is the number of rows exported so far, including those of reused Leaders."""

    tables: WorkTables
    job: ExportJob
    sink: FileSink
    observer: ExportObserver
    executor: Executor
    rows: int = 0
    spill_bytes: int = 0

    def add_rows(self, rows: int = 0) -> None:
        """Report progress. The observer may stop the export."""
        self.rows += rows
        self.observer.rows_done(self.rows)

    def write_header_only(self) -> ManifestEntry:
        """Write the shared files of Leaders without rows."""
        stored: dict[str, StoredFormat] = {}
        for name in self.job.formats:
            if name == PARQUET:
                stored[name] = ParquetFiles(self.tables, self.sink).write_empty()
                continue
            member = GzipMember(CODECS[self.job.compression])
            content = member.compressed([text_format(self.tables.resource, name).empty_file])
            stored[name] = member.totals.stored(self.sink.write("", self.job.resource, name, content))
        return ManifestEntry("", self.job.resource, 0, "", stored)

    def write(self, leaders: Mapping[str, SurveyedLeader], rows: str) -> None:
        """Write the files of these Leaders. `rows` are as in `leader_bundles`. Raises RunError if some are missing."""
        parquet_files: Mapping[str, StoredFormat] = {}
        if PARQUET in self.job.formats:
            parquet_files = ParquetFiles(self.tables, self.sink).write(list(leaders.values()), self.add_rows)
        rows_before = self.rows
        with closing(Spill(temp_folder(self.tables.connection))) as spill:
            try:
                rows_of = {leader.client_id: leader.rows for leader in leaders.values()}
                threads = self.job.threads
                bundles = leader_bundles(self.tables, rows, rows_of, spill, self.executor, threads, self.add_rows)
                self._write_texts(bundles, leaders, parquet_files)
            except BaseException:
                # Other threads may read the spill.
                self.executor.shutdown(cancel_futures=True)
                raise
        self.spill_bytes = spill.bytes
        if self.rows - rows_before != sum(leader.rows for leader in leaders.values()):
            raise RunError(f"{self.job.resource}: rows of some Leaders are missing. Start the run again.")

    def _write_texts(
        self,
        bundles: Iterator[LineBundle],
        leaders: Mapping[str, SurveyedLeader],
        parquet_files: Mapping[str, StoredFormat],
    ) -> None:
        open_merge = merge_engines(self.tables.resource)
        # Threads write small files and deltas in turns. Otherwise each of their short calls would wait for the
        # interpreter's lock. A turn for deltas may be part of one for files.
        turn = RLock()

        def write(lines: Iterable[Sequence[LeaderChunk]], compressors: Executor | None = None) -> LeaderFileWriter:
            def is_small(chunk: LeaderChunk) -> bool:
                # A streamed file waits for other threads, which may wait for their turn.
                return compressors is None and sum(map(len, chunk.lines.values())) < _SMALL_BYTES

            last = ""
            with LeaderFileWriter(self.job, self.sink, parquet_files, compressors, open_merge, turn) as files:
                for chunks in lines:
                    for in_turn, group in groupby(chunks, is_small):
                        with turn if in_turn else nullcontext():
                            for chunk in group:
                                if chunk.client_id != last:
                                    files.begin(leaders[chunk.client_id])
                                    last = chunk.client_id
                                files.add(chunk)
                        # Creating a file takes so long that another thread can have its turn.
                        files.store()
                    if compressors is not None:
                        self.add_rows(sum(chunk.rows for chunk in chunks))
                        self._report(files)
                files.finish()
            return files

        def small_bundles() -> Iterator[Iterator[list[LeaderChunk]]]:
            for bundle in bundles:
                if bundle.is_large:
                    self._report(write(bundle.lines, self.executor))
                else:
                    yield bundle.lines

        # Bundles that wait keep the threads busy while this one stores entries.
        for files in bounded_map(self.executor, write, small_bundles(), 4 * self.job.threads + 1):
            self.add_rows(self._report(files))

    def _report(self, files: LeaderFileWriter) -> int:
        """Report what is finished. Return the number of rows."""
        entries, deltas = files.finished()
        if entries:
            self.observer.entries_written(entries)
        if deltas:
            self.observer.deltas_made(deltas)
        return sum(entry.rows for entry in entries)
