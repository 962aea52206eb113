"""Memory of the export step on the day after a publication: little for each Leader, because there may be 100,000."""

import gc
import hashlib
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.delta import LeaderDelta, ResourceDelta
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.export.job import ExportJob, ExportObserver, ResourceReport, RowCounts
from daybreak.filestore.file_store import FileSink
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.packs import Packing
from daybreak.proof.accounting import WrittenFigures
from daybreak.snapshots.deltas import RunDeltas
from daybreak.snapshots.export_step import ExportStep, ManifestWriter
from daybreak.snapshots.lease import Lease
from daybreak.snapshots.progress import Progress
from daybreak.snapshots.published_entries import PublishedEntries
from daybreak.snapshots.run_context import RunContext
from daybreak.state.stores import Stores
from tests.small_platform import SmallReading, SmallSource, context_in, create_state, leader_ids, now

RESOURCES = ("members", "campaigns", "communities")
FEW, MANY = 200, 1_200
GROUP = 50
PEAK_BYTES, KEPT_BYTES = 500, 45
"""For each Leader, during the export of one resource, and after it for each resource. An entry alone takes 1,500."""


@dataclass
class GeneratedReading(SmallReading):
    """A reading in which the files of all Leaders changed, or of none, since the run before."""

    changes: bool = True

    def export(self, job: ExportJob, sink: FileSink, observer: ExportObserver) -> ResourceReport:
        resource, leaders = job.resource, self.leaders()
        observer.entries_written([ManifestEntry("", resource, 0, "", stored(sink, "", resource))])
        if not self.changes:
            observer.leaders_reused(leaders)
        for start in range(0, len(leaders) if self.changes else 0, GROUP):
            some = leaders[start : start + GROUP]
            observer.entries_written(list(self.entries(some, resource, sink)))
            observer.deltas_made(list(deltas(some, job)))
        reused = 0 if self.changes else len(leaders)
        return ResourceReport(resource, len(leaders), len(leaders), reused, RowCounts())

    def entries(self, leaders: list[str], resource: str, sink: FileSink) -> Iterator[ManifestEntry]:
        for leader in leaders:
            yield ManifestEntry(leader, resource, 1, leader.replace("-", ""), stored(sink, leader, resource))


def stored(sink: FileSink, leader: str, resource: str) -> dict[str, StoredFormat]:
    content = f"{resource} of {leader}\n".encode()
    digest = hashlib.sha256(content).hexdigest()
    files = {name: sink.write(leader, resource, name, [content]) for name in ("csv", "json")}
    return {name: StoredFormat(file.bytes, file.sha256, len(content), digest, file.key) for name, file in files.items()}


def deltas(leaders: list[str], job: ExportJob) -> Iterator[LeaderDelta]:
    """Yield a delta for each Leader with a previous file."""
    bases = {} if job.deltas is None else job.deltas.bases
    for leader in leaders:
        base = bases.get(leader)
        if base is not None:
            yield LeaderDelta(leader, job.resource, ResourceDelta(base.rows, 1, inserted=1, deleted=1))


def export_day(context: RunContext, leaders: list[str], *, changes: bool) -> tuple[int, int]:
    """Export and publish a day. Return the bytes allocated at the peak of its exports, and those after them."""
    state, run = context.state, Snapshot(context.new_id(), SnapshotState.BUILDING, now(), now())
    published = PublishedEntries(state, state.read(lambda stores: stores.snapshots.current()))
    run = state.write(lambda stores: stores.snapshots.begin_manual(run, now(), 60))
    progress = Progress(RESOURCE_NAMES, RunReport(), context.clock, context.ticks)
    lease = Lease(context, run, progress.read)
    manifest = ManifestWriter(run, lease, published)
    run_deltas = RunDeltas(context, run, lease, progress, published)
    step = ExportStep(context, lease, progress, manifest, run_deltas, published.snapshot)
    reading = GeneratedReading(now(), {leader: {} for leader in leaders}, SmallSource(Path()), changes=changes)
    sink = context.store.stage(run.snapshot_id)
    run_deltas.begin()
    manifest.add_leaders(leaders)
    step.written = WrittenFigures(leaders)
    run_deltas.compare_leaders(leaders)
    tracemalloc.start()
    try:
        for resource in RESOURCES:
            progress.enter_phase(resource)
            step.export(reading, resource, sink)
        manifest.flush()
        run_deltas.flush()
        _, peak = tracemalloc.get_traced_memory()
        # It also empties the interpreter's lists of free objects.
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    sink.commit()

    def publish(stores: Stores) -> None:
        stores.snapshots.finish(run.snapshot_id, run.fence, SnapshotState.COMPLETE, now(), report=RunReport())
        stores.snapshots.publish(run.snapshot_id, None, now())

    state.write(publish)
    counted = state.read(lambda stores: sum(1 for _ in stores.snapshots.entries(run.snapshot_id)))
    assert counted == len(RESOURCES) * (len(leaders) + 1)
    found = state.read(lambda stores: sum(1 for _ in stores.deltas.of_snapshot(run.snapshot_id)))
    assert found == (len(RESOURCES) * len(leaders) if changes and published.snapshot is not None else 0)
    return peak, kept


@pytest.mark.parametrize("changes", [False, True])
def test_the_next_day_needs_little_memory_for_each_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: bool
) -> None:
    monkeypatch.setattr("daybreak.state.manifests._PAGE", GROUP)
    monkeypatch.setattr("daybreak.snapshots.export_step._ENTRIES_PER_TRANSACTION", GROUP)
    monkeypatch.setattr("daybreak.snapshots.deltas._DELTAS_PER_TRANSACTION", GROUP)
    monkeypatch.setattr("daybreak.snapshots.published_entries._LEADERS_PER_READ", GROUP)
    monkeypatch.setattr("daybreak.snapshots.published_entries._GROUPS_IN_MEMORY", 2)
    peaks, kept = [], []
    # The first one loads modules.
    for number, leaders in enumerate((10, FEW, MANY)):
        folder = tmp_path / str(number)
        folder.mkdir()
        create_state(folder)
        context = context_in(folder, store=LocalDisk(folder / "files", Packing(pack_bytes=20_000)))
        with closing(context.state):
            ids = leader_ids(leaders)
            export_day(context, ids, changes=True)
            peak_bytes, kept_bytes = export_day(context, ids, changes=changes)
            peaks.append(peak_bytes)
            kept.append(kept_bytes)
    assert peaks[2] - peaks[1] < PEAK_BYTES * (MANY - FEW)
    assert kept[2] - kept[1] < KEPT_BYTES * len(RESOURCES) * (MANY - FEW)
