"""The steps of one run, in order, with everything it keeps between them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from sys import intern

import structlog

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import CarryFailed, FileStoreError, RunError
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.ports.sources import Reading, ResourceReport
from daybreak.ports.state import Stores
from daybreak.snapshots.engine import export, faults_between
from daybreak.snapshots.guard import Finding, clock_fault, leader_drops, null_growth, row_drops
from daybreak.snapshots.lease import Lease
from daybreak.snapshots.progress import Progress
from daybreak.snapshots.report import count, resources_of
from daybreak.snapshots.retention import clean
from daybreak.snapshots.room import expected_need, require_room
from daybreak.snapshots.verify import SAMPLE, Damage, damaged_files, files_of
from daybreak.snapshots.watched_sink import WatchedSink
from daybreak.snapshots.workshop import Workshop

_log = structlog.get_logger("daybreak.snapshots")
_ENTRIES_AT_ONCE = 2000
_TOLD_EVERY_SECONDS = 0.5
_LEADERS_AT_ONCE = 5000
_MOST_FINDINGS = 100
_RUNS_FOR_ROOM = 20
_UNFINISHED = frozenset({SnapshotState.BUILDING, SnapshotState.FAILED})
# Files that are carried over are read back in turn, all of them once a week.
_CARRIED_TURNS = 7


class Making:
    """One run at work. `previous` is the served snapshot whose unchanged files may be carried over."""

    def __init__(
        self, workshop: Workshop, snapshot: Snapshot, lease: Lease, progress: Progress, previous: Snapshot | None
    ) -> None:
        self._shop, self._snapshot, self._lease, self._progress = workshop, snapshot, lease, progress
        self._served = previous
        self._carries_from = previous if previous is not None and self._same_formats(previous) else None
        self._sink: WatchedSink | None = None
        self._told_at = workshop.ticks()
        self._pending: list[ManifestEntry] = []
        self._carried: dict[str, set[str]] = {}
        self._counted: dict[str, int] = {}
        self._files = self._files_carried = 0
        self._bytes_written = self._scratch_bytes = 0
        self._resources: dict[str, dict[str, object]] = {}
        self._notes: dict[str, object] = {}
        self._phases: dict[str, float] = {}

    def make(self) -> tuple[SnapshotState, dict[str, object]]:
        """All steps; gives `complete` or `held` and the run report. Raises what ended the run."""
        shop = self._shop
        self._enter("cleaning up")
        self._clean()
        self._enter("opening")
        with shop.source.open(self._snapshot.as_of) as reading:
            reading.check()
            self._need_room(reading)
            self._sink = WatchedSink(shop.store.stage(self._snapshot.snapshot_id), self._progress, self._lease.check)
            self._add_leaders(reading.leaders())
            for resource in RESOURCE_NAMES:
                self._make_resource(reading, resource)
            self._flush()
            self._enter("checking references")
            references = faults_between(reading, [name for name, rows in self._counted.items() if rows])
            reading.confirm()
        self._notes["references"] = [asdict(fault) for fault in references]
        self._enter("sealing")
        self._sink.seal()
        self._enter("verifying")
        self._read_back()
        self._enter("guarding")
        served = shop.state.read(lambda stores: stores.snapshots.current())
        findings = clock_fault(served, shop.clock())
        if shop.plan.guard.enabled and served is not None:
            findings += self._findings(served)
        if shop.plan.guard.enabled and shop.plan.guard.referential:
            findings += [
                Finding("references", fault.check, f"{fault.check}: {fault.rows} rows, such as {fault.example}")
                for fault in references
            ]
        self._notes["findings"] = [finding.as_json() for finding in findings[:_MOST_FINDINGS]]
        self._notes["findings_in_all"] = len(findings)
        self._lease.check()
        self._enter("complete")
        return (SnapshotState.HELD if findings else SnapshotState.COMPLETE), self.report()

    def _clean(self) -> None:
        """Makes room. What cannot be removed, or is being removed by somebody else, is no reason to make no files."""
        shop = self._shop
        try:
            clean(shop.state, shop.store, shop.plan, shop.clock(), own=self._snapshot.snapshot_id)
        except FileStoreError as error:
            _log.warning("run.cleaning_failed", code=error.code, reason=error.message)

    def discard(self) -> None:
        """Removes what was written. Raises FileStoreError, Unavailable."""
        if self._sink is not None:
            self._sink.discard()

    def report(self) -> dict[str, object]:
        """The run report so far: plain JSON values. `phases` give the second at which each began."""
        return {
            "engine": self._shop.source.engine,
            "formats": list(self._shop.plan.formats),
            "carried_from": self._carries_from.snapshot_id if self._carries_from else None,
            "rows": sum(count(entry, "rows") for entry in self._resources.values()),
            "bytes": sum(count(entry, "bytes") for entry in self._resources.values()),
            "bytes_written": self._bytes_written,
            "scratch_bytes": self._scratch_bytes,
            "files": self._files,
            "files_carried": self._files_carried,
            "seconds": round(self._progress.seconds, 3),
            "phases": {name: round(seconds, 3) for name, seconds in self._phases.items()},
            "resources": self._resources,
            **self._notes,
        }

    def _enter(self, phase: str) -> None:
        self._lease.check()
        self._progress.enter(phase)
        self._phases[phase] = self._progress.seconds
        self._shop.watch(self._progress.as_json())

    def _same_formats(self, previous: Snapshot) -> bool:
        formats = previous.report.get("formats")
        return isinstance(formats, list | tuple) and list(formats) == list(self._shop.plan.formats)

    def _need_room(self, reading: Reading) -> None:
        """Refuses to start what the disks cannot hold. Raises RunError (`disk_short`)."""
        shop = self._shop
        runs = shop.state.read(lambda stores: stores.snapshots.recent(_RUNS_FOR_ROOM))
        reports = [run.report for run in runs if run.state not in _UNFINISHED]
        memory_bytes, carries = shop.plan.memory_limit_bytes, self._carries_from is not None
        need = expected_need(reports, reading.input_bytes(), memory_bytes, carries=carries)
        if not require_room(need, shop.store.free_bytes(), shop.scratch):
            _log.warning("disk.narrow", reason="There is no room for a run that would write every file anew.")

    def _add_leaders(self, leaders: Sequence[str]) -> None:
        self._notes["leaders"] = len(leaders)
        own = self._snapshot
        for start in range(0, len(leaders), _LEADERS_AT_ONCE):
            some = leaders[start : start + _LEADERS_AT_ONCE]
            self._lease.patiently(
                lambda stores, some=some: stores.snapshots.add_leaders(  # type: ignore[misc]
                    own.snapshot_id, own.fence, some
                )
            )

    def _make_resource(self, reading: Reading, resource: str) -> None:
        self._lease.check()
        self._progress.begin(resource)
        self._shop.watch(self._progress.as_json())
        began = self._phases[resource] = self._progress.seconds
        assert self._sink is not None
        self._counted[resource] = 0
        self._carried[resource] = set()
        report = export(
            reading,
            resource,
            self._shop.plan,
            self._sink,
            previous=self._fingerprints(resource),
            on_entries=self._take,
            on_carried=self._carried[resource].update,
            on_progress=self._advance,
        )
        self._bytes_written += report.bytes_written
        self._look_at_scratch()
        carried_bytes = self._carry(resource)
        self._check_counts(report)
        self._resources[resource] = {
            "rows": report.rows,
            "leaders": report.leaders,
            "carried": report.carried,
            "bytes": report.bytes_written + carried_bytes,
            "seconds": round(self._progress.seconds - began, 3),
            "nulls": dict(report.null_counts),
            "unknown_leader_rows": report.unknown_leader_rows,
            "unexpected_values": dict(report.unexpected_values),
        }

    def _advance(self, rows: int) -> None:
        self._lease.check()
        self._progress.reach(rows)
        if self._shop.ticks() - self._told_at >= _TOLD_EVERY_SECONDS:
            self._told_at = self._shop.ticks()
            self._shop.watch(self._progress.as_json())
            self._look_at_scratch()

    def _look_at_scratch(self) -> None:
        """Remembers the most that was ever put aside: the next run needs as much."""
        if self._shop.scratch is not None:
            self._scratch_bytes = max(self._scratch_bytes, self._shop.scratch.used_bytes())

    def _fingerprints(self, resource: str) -> dict[str, str]:
        if self._carries_from is None:
            return {}
        before = self._carries_from.snapshot_id
        return self._shop.state.read(lambda stores: stores.snapshots.fingerprints(before, resource))

    def _take(self, entries: list[ManifestEntry]) -> None:
        """Keeps finished entries for the manifest, some thousands in one transaction."""
        self._pending.extend(entries)
        for entry in entries:
            self._counted[entry.resource] += entry.rows
            self._files += len(entry.formats)
        if len(self._pending) >= _ENTRIES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        entries, self._pending = self._pending, []
        own = self._snapshot
        if entries:
            self._lease.patiently(lambda stores: stores.snapshots.add_entries(own.snapshot_id, own.fence, entries))

    def _carry(self, resource: str) -> int:
        """Carries over the files of the Leaders whose rows have not changed; how many bytes they hold."""
        wanted = self._carried[resource] = {intern(client_id) for client_id in self._carried[resource]}
        if not wanted or self._carries_from is None or self._sink is None:
            return 0
        before = self._carries_from.snapshot_id

        def read(stores: Stores) -> list[ManifestEntry]:
            return [entry for entry in stores.snapshots.entries(before, resource) if entry.client_id in wanted]

        size = 0
        entries = self._shop.state.read(read)
        if len(entries) != len(wanted):
            raise CarryFailed(f"Snapshot {before} lacks Leaders whose rows of {resource} are unchanged.")
        for entry in entries:
            formats = {}
            for name, stored in entry.formats.items():
                try:
                    key = self._sink.carry(stored.key)
                except FileStoreError as error:
                    raise CarryFailed(error.message) from error
                formats[name] = StoredFormat(
                    stored.bytes, stored.sha256, stored.content_bytes, stored.content_sha256, key
                )
                size += stored.bytes
            self._files_carried += len(formats)
            self._take([ManifestEntry(entry.client_id, resource, entry.rows, entry.fingerprint, formats)])
        return size

    def _check_counts(self, report: ResourceReport) -> None:
        """The manifest must hold every row that the engine says it has exported."""
        counted = self._counted[report.resource]
        if counted != report.rows:
            raise RunError(
                f"{report.resource}: the files hold {counted} rows where {report.rows} were read.",
                code="verification_failed",
            )

    def _read_back(self) -> None:
        """Reads written files back through the manifest. Raises RunError (`verification_failed`), CarryFailed."""
        shop, own = self._shop, self._snapshot.snapshot_id
        for resource in RESOURCE_NAMES:
            files = self._to_read(files_of(shop.state, own, resource), resource)
            for found in damaged_files(shop.store, files, shop.plan.threads):
                self._lease.check()
                if not isinstance(found, Damage):
                    continue
                if found.client_id in self._carried[resource]:
                    raise CarryFailed(f"A file that was carried over is damaged: {found.reason}")
                raise RunError(f"A written file cannot be read back: {found.reason}", code="verification_failed")

    def _to_read(
        self, files: Sequence[tuple[Damage, StoredFormat]], resource: str
    ) -> Iterator[tuple[Damage, StoredFormat]]:
        everything = self._shop.plan.verify == "full" and self._shop.store.reads_cheaply
        turn = self._snapshot.as_of.toordinal()
        carried = self._carried[resource]

        def in_turn(client_id: str, turns: int) -> bool:
            return zlib.crc32(client_id.encode()) % turns == turn % turns

        for file, stored in files:
            client_id = file.client_id
            if client_id in carried:
                wanted = in_turn(client_id, _CARRIED_TURNS)
            else:
                wanted = everything or client_id == "" or in_turn(client_id, SAMPLE)
            if wanted:
                yield file, stored

    def _findings(self, served: Snapshot) -> list[Finding]:
        """What the guard finds against the served snapshot."""
        shop, own = self._shop, self._snapshot.snapshot_id
        rules, now = shop.plan.guard, self.report()
        findings = [*row_drops(served.report, now, rules), *null_growth(served.report, now, rules)]
        before = resources_of(served.report)
        for resource in RESOURCE_NAMES:
            if resource in before and count(before[resource], "rows") < rules.leader_least_rows:
                # No Leader had so many.
                continue
            self._lease.check()

            def compare(stores: Stores, resource: str = resource) -> list[Finding]:
                return list(leader_drops(stores.snapshots, served.snapshot_id, own, resource, rules))

            findings += shop.state.read(compare)
        return findings
