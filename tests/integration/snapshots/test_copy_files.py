"""Copies of the stored files in another store, and snapshots that are forgotten before their time."""

from dataclasses import replace
from pathlib import Path

import pytest

from daybreak.domain.audit import AuditQuery
from daybreak.domain.errors import OperatorError
from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import FileStore, PublicationMark
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.objects import PART_BYTES
from daybreak.filestore.packs import NO_PACKS
from daybreak.snapshots import retention
from daybreak.snapshots.copy_files import _PACKED_FILES_PER_TASK, Copied, copy_files
from daybreak.snapshots.retention import forget
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import manifest_files, verify_snapshot
from tests.configured import configured
from tests.parts.buckets import open_bucket
from tests.parts.s3 import S3Bucket
from tests.small_platform import context_in, leader_ids, now, platform_of, write_platform

LEADERS = leader_ids(3)


@pytest.fixture
def run_context(run_context: RunContext) -> RunContext:
    """A context of one format: a bucket takes most of the time of these tests."""
    return replace(run_context, settings=configured(snapshot={"formats": ("csv",)}))


@pytest.fixture
def unpacked(run_context: RunContext, folder: Path) -> RunContext:
    """A context whose files are outside packs. A pack is copied or lost as a whole."""
    return replace(run_context, store=LocalDisk(folder / "files", NO_PACKS))


def two_publications(context: RunContext, folder: Path) -> tuple[str, str]:
    """Publish twice, with deltas in between. Return the ids."""
    first = run_manually(context)
    platform = platform_of()
    platform[LEADERS[0]]["members"] = []
    write_platform(folder / "platform.json", platform)
    return first.snapshot_id, run_manually(context).snapshot_id


def copy(context: RunContext, target: FileStore) -> Copied:
    return copy_files(context.state, context.store, target, 4, lambda _: None)


def test_copy_is_complete_and_continues(run_context: RunContext, folder: Path, target: FileStore) -> None:
    ids = two_publications(run_context, folder)
    first = copy(run_context, target)
    assert first.faults == []
    assert first.files
    again = copy(run_context, target)
    assert (again.files, again.present) == (0, first.files)
    for snapshot_id in ids:
        assert verify_snapshot(run_context.state, target, snapshot_id).damaged == ()
    assert target.ids("deltas") == run_context.store.ids("deltas")
    first_id = run_context.state.read(lambda stores: stores.deltas.first_publication())
    assert first_id is not None
    assert target.publication_mark(first_id) == run_context.store.publication_mark(first_id)


def test_packed_files_of_several_tasks_are_copied_and_checked(
    run_context: RunContext, folder: Path, target: FileStore
) -> None:
    write_platform(folder / "platform.json", platform_of(leaders=300, rows=1))
    snapshot = run_manually(run_context)
    files = list(manifest_files(run_context.state, snapshot.snapshot_id, "members"))
    assert len(files) > _PACKED_FILES_PER_TASK
    (pack,) = {slice_of(file.stored.key).key for file in files}
    damaged = [files[place] for place in (0, _PACKED_FILES_PER_TASK - 1, _PACKED_FILES_PER_TASK, -1)]
    with (folder / "files" / pack).open("r+b") as stored:
        for file in damaged:
            stored.seek(slice_of(file.stored.key).offset)
            stored.write(b"damaged")
    copied = copy(run_context, target)
    assert [fault.split()[2] for fault in copied.faults] == [file.stored.key for file in damaged]
    again = copy(run_context, target)
    assert (again.files, again.present, len(again.faults)) == (0, copied.files, len(damaged))


@pytest.mark.release
def test_different_file_in_the_target_is_not_replaced(unpacked: RunContext, target: FileStore) -> None:
    snapshot = run_manually(unpacked)
    entries = unpacked.state.read(lambda stores: list(stores.snapshots.entries(snapshot.snapshot_id, "members")))
    same_size, other_size, *_ = [entry.formats["csv"] for entry in entries if entry.client_id]
    target.add(same_size.key, "members", "csv", [bytes(same_size.bytes)])
    target.add(other_size.key, "members", "csv", [b"other"])
    copied = copy(unpacked, target)
    assert len(copied.faults) == 2
    assert b"".join(target.read(same_size.key)) == bytes(same_size.bytes)
    assert b"".join(target.read(other_size.key)) == b"other"


@pytest.mark.release
def test_damaged_file_is_reported_and_not_copied(unpacked: RunContext, folder: Path, target: FileStore) -> None:
    snapshot = run_manually(unpacked)
    entries = unpacked.state.read(lambda stores: list(stores.snapshots.entries(snapshot.snapshot_id, "members")))
    stored = next(entry for entry in entries if entry.client_id).formats["csv"]
    path = folder / "files" / stored.key
    path.chmod(0o600)
    path.write_bytes(bytes(stored.bytes))
    copied = copy(unpacked, target)
    (fault,) = copied.faults
    assert f"{stored.key} in the source is damaged" in fault
    assert not target.presence()(stored.key, stored.bytes)


def test_file_of_several_parts_is_added(target: FileStore) -> None:
    key = f"snapshots/{LEADERS[0]}/d9/{LEADERS[0]}.members.csv.gz"
    target.add(key, "members", "csv", (bytes(PART_BYTES) for _ in range(3)))
    assert target.presence()(key, 3 * PART_BYTES)


def test_target_of_a_later_publication_is_refused(run_context: RunContext, target: FileStore) -> None:
    snapshot = run_manually(run_context)
    target.mark_publication(snapshot.snapshot_id, PublicationMark(7, LEADERS[1]))
    with pytest.raises(OperatorError, match="version 7"):
        copy(run_context, target)


def test_kept_snapshot_is_forgotten(unpacked: RunContext, folder: Path) -> None:
    first, second = two_publications(unpacked, folder)
    state, store = unpacked.state, unpacked.store
    store.remove("snapshots", first, frozenset())
    run_manually(unpacked)
    assert [fault.snapshot_id for fault in state.read(lambda stores: stores.file_faults.list_all())] == [first]
    forget(state, store, first, "the disk failed", now())
    assert state.read(lambda stores: stores.file_faults.list_all()) == []
    assert first not in {each.snapshot_id for each in state.read(lambda stores: stores.snapshots.served())}
    (event,) = state.read(lambda stores: stores.audit.read(AuditQuery(action="snapshot.forgotten")))
    assert (event.subject, event.details["reason"]) == (first, "the disk failed")
    assert verify_snapshot(state, store, second).damaged == ()


def test_decision_to_forget_is_recorded_first(
    run_context: RunContext, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = two_publications(run_context, folder)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(retention, "_delete_manifest", killed)
    with pytest.raises(KeyboardInterrupt):
        forget(run_context.state, run_context.store, first, "unwanted", now())
    recorded = AuditQuery(action="snapshot.forgotten")
    assert len(run_context.state.read(lambda stores: stores.audit.read(recorded))) == 1


def test_published_snapshot_is_not_forgotten(run_context: RunContext) -> None:
    snapshot = run_manually(run_context)
    with pytest.raises(OperatorError, match="is published"):
        forget(run_context.state, run_context.store, snapshot.snapshot_id, "by mistake", now())
    assert verify_snapshot(run_context.state, run_context.store, snapshot.snapshot_id).damaged == ()


@pytest.mark.release
def test_forgotten_objects_that_are_reused_stay(
    s3_bucket: S3Bucket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_bucket(s3_bucket, monkeypatch)
    context = context_in(folder, store=store)
    first, second = two_publications(context, folder)
    forget(context.state, store, first, "unwanted", now())
    assert verify_snapshot(context.state, store, second).damaged == ()
    context.state.close()
