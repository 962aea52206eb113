"""Memory of work on all files of kept snapshots: it does not grow with their number."""

import hashlib
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from daybreak.domain.delta import LeaderDelta, ResourceDelta
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.filestore.file_store import FileSink
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.packs import Packing
from daybreak.snapshots.copy_files import copy_files
from daybreak.snapshots.lost_files import find_lost_files
from daybreak.snapshots.retention import forget
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import verify_snapshot
from daybreak.state.stores import Stores
from tests.small_platform import context_in, create_state, leader_ids, now

RESOURCE = "members"
FEW, MANY = 300, 2_000
MAXIMUM_BYTES = 100
"""For each Leader, which has two files and a delta. Its entry alone takes 1,500."""


def stored(sink: FileSink, client_id: str, format: str, content: bytes) -> StoredFormat:
    written, digest = sink.write(client_id, RESOURCE, format, [content]), hashlib.sha256(content).hexdigest()
    return StoredFormat(written.bytes, written.sha256, len(content), digest, written.key)


def publish(context: RunContext, leaders: list[str], reused: Mapping[str, ManifestEntry]) -> dict[str, ManifestEntry]:
    """Publish a snapshot with the reused entries, new ones for the other Leaders, and a delta for each Leader."""
    state, snapshot_id = context.state, context.new_id()
    run = Snapshot(snapshot_id, SnapshotState.BUILDING, now(), now())
    fence = state.write(lambda stores: stores.snapshots.begin_manual(run, now(), 60)).fence
    base = state.read(lambda stores: stores.snapshots.current())
    sink = context.store.stage(snapshot_id)
    entries, deltas = dict(reused), []
    for leader in leaders:
        content = f"rows of {leader}\n".encode()
        formats = {"csv": stored(sink, leader, "delta_csv", content)}
        deltas.append(LeaderDelta(leader, RESOURCE, ResourceDelta(1, 1, inserted=1, formats=formats)))
        if leader not in reused:
            formats = {name: stored(sink, leader, name, content * 2) for name in ("csv", "json")}
            entries[leader] = ManifestEntry(leader, RESOURCE, 1, "fingerprint", formats)
    sink.commit()

    def record(stores: Stores) -> None:
        stores.snapshots.add_leaders(snapshot_id, fence, leaders)
        stores.snapshots.add_entries(snapshot_id, fence, list(entries.values()))
        stores.deltas.begin(snapshot_id, fence, None if base is None else base.snapshot_id)
        stores.deltas.add(snapshot_id, fence, deltas if base is not None else [])
        stores.snapshots.finish(snapshot_id, fence, SnapshotState.COMPLETE, now(), report=RunReport())
        stores.snapshots.publish(snapshot_id, None, now())

    state.write(record)
    return entries


@contextmanager
def two_publications(folder: Path, leaders: int) -> Iterator[RunContext]:
    """A service whose second snapshot reuses nine of ten files of the first."""
    folder.mkdir()
    create_state(folder)
    context = context_in(folder, store=LocalDisk(folder / "files", Packing(pack_bytes=20_000)))
    with closing(context.state):
        ids = leader_ids(leaders)
        first = publish(context, ids, {})
        publish(context, ids, {leader: first[leader] for number, leader in enumerate(ids) if number % 10})
        yield context


def verify(context: RunContext, _folder: Path) -> None:
    current = context.state.read(lambda stores: stores.snapshots.current())
    assert current is not None
    verified = verify_snapshot(context.state, context.store, current.snapshot_id)
    assert (verified.files > 0, verified.damaged) == (True, ())


def copy(context: RunContext, folder: Path) -> None:
    target = LocalDisk(folder / "target")
    assert copy_files(context.state, context.store, target, 2, lambda _: None).faults == []


def search_lost_files(context: RunContext, _folder: Path) -> None:
    assert find_lost_files(context.state, context.store, now(), lambda: None) == {}


def delete_first(context: RunContext, _folder: Path) -> None:
    first = context.state.read(lambda stores: stores.snapshots.served())[-1]
    forget(context.state, context.store, first.snapshot_id, "unwanted", now())


@pytest.mark.parametrize("work", [verify, copy, search_lost_files, delete_first])
def test_memory_does_not_grow_with_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[RunContext, Path], None]
) -> None:
    monkeypatch.setattr("daybreak.state.manifests._PAGE", 50)
    monkeypatch.setattr("daybreak.state.deltas._PAGE", 50)
    monkeypatch.setattr("daybreak.snapshots.lost_files._FILES_PER_PAGE", 50)
    monkeypatch.setattr("daybreak.snapshots.copy_files._FILES_PER_BATCH", 64)
    peaks = []
    # The first one loads modules.
    for number, leaders in enumerate((10, FEW, MANY)):
        folder = tmp_path / str(number)
        with two_publications(folder, leaders) as context:
            tracemalloc.start()
            try:
                work(context, folder)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    assert peaks[2] - peaks[1] < MAXIMUM_BYTES * (MANY - FEW)
