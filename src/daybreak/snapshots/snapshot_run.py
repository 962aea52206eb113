"""The steps of one run, in order."""

from datetime import datetime
from itertools import chain

import structlog
from msgspec import structs

from daybreak.catalogue.models import shipped_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import FileStoreError, ReuseFailed, RunError, Unavailable
from daybreak.domain.run_report import Accounting, Finding, ReferentialFault, RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.export.referential import check_queries
from daybreak.filestore.file_store import FileSink
from daybreak.proof.account_rows import account_sections
from daybreak.proof.accounting import SourceFigures, WrittenFigures, account, identities_of, source_rows
from daybreak.proof.examples import add_examples
from daybreak.proof.newest import MAX_RUNS, newest_rows
from daybreak.proof.own_models import own_rules, read_own_models
from daybreak.snapshots.deltas import RunDeltas, columns_digest
from daybreak.snapshots.disk_space import check_disk_space, required_space
from daybreak.snapshots.export_step import ExportStep, ManifestWriter
from daybreak.snapshots.guard import (
    clock_finding,
    comparison_findings,
    reference_findings,
    row_findings,
)
from daybreak.snapshots.lease import Lease
from daybreak.snapshots.lost_files import find_lost_files
from daybreak.snapshots.progress import Progress
from daybreak.snapshots.published_entries import PublishedEntries
from daybreak.snapshots.retention import clean
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import UNFINISHED
from daybreak.snapshots.signing import authority_of, sign_for_publication
from daybreak.snapshots.verify import delta_files, is_read_back, manifest_files, read_back
from daybreak.sources.reading import Reading

_log = structlog.get_logger("daybreak.snapshots")
_MAX_FINDINGS = 100
_RUNS_FOR_DISK_SPACE = 20


class SnapshotRun:
    """One run. `published` is the published snapshot, whose unchanged files are reused unless `full` is set."""

    def __init__(
        self,
        context: RunContext,
        snapshot: Snapshot,
        lease: Lease,
        progress: Progress,
        published: Snapshot | None,
        *,
        full: bool,
    ) -> None:
        self._context, self._snapshot, self._lease, self._progress = context, snapshot, lease, progress
        formats = context.settings.snapshot.formats
        reuses = published is not None and not full and published.report.formats == formats
        self._previous = published if reuses else None
        entries = PublishedEntries(context.state, published)
        self._manifest = ManifestWriter(snapshot, lease, entries)
        self._deltas = RunDeltas(context, snapshot, lease, progress, entries)
        self._export = ExportStep(context, lease, progress, self._manifest, self._deltas, self._previous)
        self._sink: FileSink | None = None
        self._phases: dict[str, float] = {}
        self._recorded = RunReport()
        self._accounting = Accounting()

    def build(self) -> tuple[SnapshotState, RunReport]:
        """Run all steps. Return `complete` or `held`, and the report. Raises the error that ended the run."""
        self._enter_phase("cleaning up")
        self._clean_up()
        context = self._context
        self._export.lost = find_lost_files(context.state, context.store, context.clock(), self._lease.check)
        self._enter_phase("opening")
        authority_of(self._context.state, self._context.settings, self._context.clock())
        with self._context.source.open(self._snapshot.as_of) as reading:
            reading.check()
            self._record(source_lag_seconds=None if reading.lag is None else reading.lag.total_seconds())
            self._deltas.begin()
            self._check_disk_space(reading)
            faults = self._export_all(reading)
            figures = self._account(reading)
            reading.confirm_unchanged()
        self._record(references=tuple(faults))
        self._enter_phase("sealing")
        assert self._sink is not None
        self._sink.commit()
        self._enter_phase("verifying")
        self._read_back()
        self._enter_phase("guarding")
        findings = self._findings()
        self._record(findings=tuple(findings[:_MAX_FINDINGS]), findings_in_all=len(findings))
        self._enter_phase("signing")
        self._sign(figures)
        self._enter_phase("complete")
        return (SnapshotState.HELD if findings else SnapshotState.COMPLETE), self.report()

    def discard(self) -> None:
        """Delete the written files. Raises FileStoreError, Unavailable."""
        if self._sink is not None:
            self._sink.discard()

    def report(self) -> RunReport:
        """Return the report so far."""
        resources = self._export.resources
        return structs.replace(
            self._recorded,
            engine=self._context.source.engine,
            formats=self._context.settings.snapshot.formats,
            carried_from=self._previous.snapshot_id if self._previous else None,
            rows=sum(figures.rows for figures in resources.values()),
            bytes=sum(figures.bytes for figures in resources.values()),
            bytes_written=self._export.bytes_written,
            scratch_bytes=self._export.spill_bytes,
            files=self._manifest.files,
            files_carried=self._export.reused_files,
            seconds=round(self._progress.seconds, 3),
            columns=columns_digest(),
            deltas=self._deltas.report(),
            phases={name: round(seconds, 3) for name, seconds in self._phases.items()},
            resources=resources,
        )

    def _record(self, **values: object) -> None:
        self._recorded = structs.replace(self._recorded, **values)

    def _enter_phase(self, phase: str) -> None:
        self._lease.check()
        self._progress.enter_phase(phase)
        self._phases[phase] = self._progress.seconds
        self._context.watch(self._progress.read())

    def _clean_up(self) -> None:
        """Delete files that are no longer needed. A failure does not stop the run."""
        context = self._context
        try:
            clean(context.state, context.store, context.settings, context.clock(), own=self._snapshot.snapshot_id)
        except (FileStoreError, Unavailable) as error:
            _log.warning("run.cleaning_failed", code=error.code, reason=error.message)

    def _check_disk_space(self, reading: Reading) -> None:
        """Raise RunError (`disk_short`) when the disks are too full for the run."""
        context = self._context
        runs = context.state.read(lambda stores: stores.snapshots.recent(_RUNS_FOR_DISK_SPACE))
        reports = [run.report for run in runs if run.state not in UNFINISHED]
        input_bytes = reading.input_bytes()
        if not reports and not input_bytes:
            _log.warning("disk.unchecked", reason="The size of the source is unknown before the first run.")
        settings = context.settings.snapshot
        requirement = required_space(
            reports,
            input_bytes,
            settings.memory_limit,
            reuses_files=self._previous is not None,
            # Tasks of Spark write no packs.
            pack_below=0 if context.settings.source.engine == "spark" else settings.pack_below,
        )
        if not check_disk_space(requirement, context.store.free_space(), context.spill):
            _log.warning("disk.narrow", reason="A run that reuses no file would not fit on the disk.")

    def _earlier_reports(self) -> list[tuple[datetime, RunReport]]:
        runs = self._context.state.read(lambda stores: stores.snapshots.recent(MAX_RUNS))
        return [(run.as_of, run.report) for run in runs if run.state not in UNFINISHED]

    def _export_all(self, reading: Reading) -> list[ReferentialFault]:
        """Export all resources, and check the relations between them."""
        self._sink = self._context.store.stage(self._snapshot.snapshot_id)
        leaders = reading.leaders()
        self._record(leaders=len(leaders))
        self._manifest.add_leaders(leaders)
        self._export.written = WrittenFigures(leaders)
        self._deltas.compare_leaders(leaders)
        for resource in RESOURCE_NAMES:
            self._enter_phase(resource)
            self._export.export(reading, resource, self._sink)
        self._manifest.flush()
        self._deltas.flush()
        return self._check_references(reading)

    def _check_references(self, reading: Reading) -> list[ReferentialFault]:
        """Check the relations. Those between unchanged rows have the result of the previous snapshot."""
        self._enter_phase("checking references")
        resources = [name for name, rows in self._manifest.rows.items() if rows]
        relations = {check.code: check.resources for check in check_queries(str, resources)}
        self._record(relations=tuple(relations))
        before = RunReport() if self._previous is None else self._previous.report
        unchanged = {
            code for code in before.relations if self._export.unchanged.issuperset(relations.get(code) or ("",))
        }
        faults = [fault for fault in before.references or () if fault.code in unchanged]
        return faults + reading.referential_faults(resources, unchanged)

    def _account(self, reading: Reading) -> SourceFigures:
        """Account for the rows of the source, and add the result to the report. Return the figures of the source."""
        self._enter_phase("accounting")
        engine, as_of, check = self._context.source.engine, self._snapshot.as_of, self._lease.check
        shipped, guard = shipped_models(reading.models), self._context.settings.guard
        own = list(read_own_models(reading, engine, as_of, guard.approved_rules, check))
        figures = SourceFigures(reading.leaders(), identities_of(shipped, own))
        figures.add(chain(source_rows(reading, engine, as_of, shipped, check), *(model.rows for model in own)))
        accounting = account(figures, self._export.written, reading.malformed)
        accounting = structs.replace(accounting, own_models=own_rules(own, guard.approved_rules))
        published = self._context.state.read(lambda stores: stores.snapshots.current())
        findings = row_findings(None if published is None else published.report, accounting, guard)
        if findings:
            accounting = add_examples(reading, engine, as_of, accounting, own, findings, check)
        self._accounting = accounting
        self._record(accounting=self._accounting)
        self._record(newest_rows=newest_rows(figures.newest, as_of, self._earlier_reports()))
        return figures

    def _sign(self, figures: SourceFigures) -> None:
        context, status = self._context, self._accounting.status
        sign_for_publication(
            context.state,
            context.store,
            context.settings,
            self._snapshot.snapshot_id,
            context.clock(),
            completeness=account_sections(figures, self._export.written, status),
            check=self._lease.check,
        )

    def _read_back(self) -> None:
        """Read written files back. Raises RunError (`verification_failed`), ReuseFailed."""
        context, settings = self._context, self._context.settings.snapshot
        read_all = settings.verify == "full" and context.store.full_verification
        for resource in RESOURCE_NAMES:
            reused = self._export.reused[resource]
            wanted = is_read_back(self._snapshot, reused, read_all=read_all)
            files = chain(
                manifest_files(context.state, self._snapshot.snapshot_id, resource, wanted),
                delta_files(context.state, self._snapshot.snapshot_id, resource),
            )
            for checked in read_back(context.store, files, settings.thread_count):
                self._lease.check()
                if checked.fault is None:
                    continue
                if checked.file.client_id in reused:
                    raise ReuseFailed(f"A reused file is damaged: {checked.fault}")
                raise RunError(f"A written file cannot be read back: {checked.fault}", code="verification_failed")

    def _findings(self) -> list[Finding]:
        context, guard = self._context, self._context.settings.guard
        published = context.state.read(lambda stores: stores.snapshots.current())
        findings = clock_finding(published, context.clock())
        if guard.enabled and published is not None:
            findings += comparison_findings(context.state, published, self._snapshot.snapshot_id, self.report(), guard)
        before = None if published is None else published.report
        findings += row_findings(before, self._accounting, guard)
        if guard.enabled and guard.referential_checks:
            findings += reference_findings(before, self.report(), guard)
        self._lease.check()
        return findings
