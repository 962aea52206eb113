"""Exports one resource: from rows in the embedded engine to files and manifest entries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from daybreak.catalogue.resources import resource_named
from daybreak.domain.delta import LeaderDelta
from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.engine import engine_faults
from daybreak.export.gzip_member import codec_named
from daybreak.export.leader_chunks import split_by_leader
from daybreak.export.leader_files import LeaderFileWriter
from daybreak.export.ordered_lines import line_batches
from daybreak.export.parquet_files import PARQUET, ParquetFiles
from daybreak.export.sort_passes import wide_leaders_last
from daybreak.export.survey import Survey, SurveyedLeader, survey_rows
from daybreak.export.text_formats import TextFormat, line_kinds, text_format
from daybreak.export.work_tables import EmbeddedRows, WorkTables, open_work_tables
from daybreak.ports.files import FileSink
from daybreak.ports.sources import ExportJob, ExportObserver, ResourceReport


def export_resource(rows: EmbeddedRows, job: ExportJob, sink: FileSink, observer: ExportObserver) -> ResourceReport:
    """Export one resource as `Reading.export` does."""
    resource = resource_named(job.resource)
    with engine_faults(f"Resource {resource.name}"), open_work_tables(rows, resource) as tables:
        export = _ResourceExport(tables, job, sink, observer)
        observer.entries_written([export.write_header_only()])
        survey = survey_rows(tables, rows.leaders(), encoding_of(job))
        reused = [one for one in survey.leaders if job.previous.get(one.client_id) == one.fingerprint]
        if reused:
            observer.leaders_reused([leader.client_id for leader in reused])
        reused_ids = {leader.client_id for leader in reused}
        changed = wide_leaders_last([leader for leader in survey.leaders if leader.client_id not in reused_ids])
        export.rows_before = sum(leader.rows for leader in reused)
        observer.rows_done(export.rows_before)
        if changed:
            export.write(survey, changed)
    return resource_report(job, survey, len(reused), export.bytes_written)


def encoding_of(job: ExportJob) -> str:
    """Return the settings that affect the bytes of a Leader's files. They are part of the fingerprint."""
    return f"{job.compression} {','.join(job.formats)}"


def resource_report(job: ExportJob, survey: Survey, reused_leaders: int, bytes_written: int) -> ResourceReport:
    """Return the report of an export from its survey."""
    return ResourceReport(
        resource=job.resource,
        rows=survey.rows,
        leaders=len(survey.leaders),
        reused_leaders=reused_leaders,
        unknown_leader_rows=survey.unknown_leader_rows,
        unexpected_values=survey.unexpected_values,
        null_counts=survey.null_counts,
        bytes_written=bytes_written,
    )


@dataclass(slots=True)
class _ResourceExport:
    """The export of one resource. `rows_before` is the number of rows of reused Leaders, which progress includes."""

    tables: WorkTables
    job: ExportJob
    sink: FileSink
    observer: ExportObserver
    rows_before: int = 0
    bytes_written: int = 0

    def write_header_only(self) -> ManifestEntry:
        """Write the shared files of Leaders without rows."""
        codec = codec_named(self.job.compression)
        stored: dict[str, StoredFormat] = {}
        for text in self._texts():
            content = text.empty_file
            written = self.sink.write("", self.job.resource, text.name, (codec.member(content),))
            digest = hashlib.sha256(content).hexdigest()
            stored[text.name] = StoredFormat(written.bytes, written.sha256, len(content), digest, written.key)
        if PARQUET in self.job.formats:
            stored[PARQUET] = ParquetFiles(self.tables, self.sink).write_empty()
        return ManifestEntry("", self.job.resource, 0, "", {name: stored[name] for name in self.job.formats})

    def write(self, survey: Survey, leaders: Sequence[SurveyedLeader]) -> None:
        """Write the files of these Leaders, in this order. Raises RunError when rows are missing."""
        texts = self._texts()
        parquet_files: Mapping[str, StoredFormat] = {}
        if PARQUET in self.job.formats:
            # If there are text formats, they report the rows.
            progress = (lambda _: None) if texts else self._rows_done
            parquet_files = ParquetFiles(self.tables, self.sink).write(leaders, progress)
        if texts:
            self._write_texts(survey, leaders, parquet_files)
        else:
            self._entries_written(
                [
                    ManifestEntry(one.client_id, self.job.resource, one.rows, one.fingerprint, {PARQUET: stored})
                    for one in leaders
                    for stored in [parquet_files[one.client_id]]
                ]
            )

    def _write_texts(
        self, survey: Survey, leaders: Sequence[SurveyedLeader], parquet_files: Mapping[str, StoredFormat]
    ) -> None:
        rows, last = 0, -1
        batches = line_batches(self.tables, survey, leaders, line_kinds(self._texts()), threads=self.job.threads)
        with LeaderFileWriter(self.job, self.sink, parquet_files) as files, closing(batches):
            for chunk in split_by_leader(batches):
                if chunk.ordinal != last:
                    files.begin(leaders[chunk.ordinal])
                    last = chunk.ordinal
                files.add(chunk)
                rows += chunk.rows
                self._rows_done(rows)
                self._entries_written(files.finished_entries())
                self._deltas_made(files.finished_deltas())
            files.finish()
            if last != len(leaders) - 1 or rows != sum(leader.rows for leader in leaders):
                raise RunError(
                    f"{self.job.resource}: received {rows} rows of {last + 1} Leaders, but {len(leaders)} Leaders have "
                    "rows: the stream ended early or the source changed."
                )
            files.flush()
        self._entries_written(files.finished_entries())
        self._deltas_made(files.finished_deltas())

    def _texts(self) -> list[TextFormat]:
        return [text_format(self.tables.resource, name) for name in self.job.formats if name != PARQUET]

    def _entries_written(self, entries: list[ManifestEntry]) -> None:
        if entries:
            self.bytes_written += sum(stored.bytes for entry in entries for stored in entry.formats.values())
            self.observer.entries_written(entries)

    def _deltas_made(self, deltas: list[LeaderDelta]) -> None:
        if deltas:
            self.observer.deltas_made(deltas)

    def _rows_done(self, rows: int) -> None:
        self.observer.rows_done(self.rows_before + rows)
