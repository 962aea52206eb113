"""Runs whose small files share packs, on a local disk and in a bucket."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.erasure import Erasure, ReplacedFiles
from daybreak.domain.snapshot import Snapshot
from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import FileSlice, FileStore
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.object_store import ObjectStore
from daybreak.filestore.packs import NO_PACKS, Packing
from daybreak.snapshots.copy_files import copy_files
from daybreak.snapshots.retention import clean, forget
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import manifest_files, verify_snapshot
from daybreak.state.stores import Stores
from tests.configured import configured
from tests.parts.buckets import open_bucket
from tests.parts.s3 import S3Bucket
from tests.parts.variants import one_of
from tests.small_platform import context_in, leader_ids, now, open_context, platform_of, source_of, write_platform

LEADERS = 24
PACKING = Packing(file_bytes=400, pack_bytes=4_000)
SETTINGS = configured(snapshot={"formats": ("csv",), "keep": 1})


@pytest.fixture(params=one_of("folder", "bucket"))
def store(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    if request.param == "folder":
        return LocalDisk(folder / "files", PACKING)
    bucket: S3Bucket = request.getfixturevalue("s3_bucket")
    return open_bucket(bucket, monkeypatch, packing=PACKING)


@pytest.fixture
def clock() -> list[datetime]:
    return [datetime(2026, 11, 20, 4, tzinfo=UTC)]


@pytest.fixture
def context(folder: Path, store: FileStore, clock: list[datetime]) -> Iterator[RunContext]:
    with open_context(folder, store=store, settings=SETTINGS, clock=lambda: clock[0]) as found:
        yield found


def publish(context: RunContext, folder: Path, *changed: int, leaders: int = LEADERS, mark: str = "b") -> Snapshot:
    """Publish a platform in which the rows of some Leaders are changed. The first Leader has many rows."""
    ids = leader_ids(leaders)
    platform = platform_of(leaders)
    other = platform_of(leaders, mark=mark)
    platform |= {ids[number]: other[ids[number]] for number in changed}
    platform[ids[0]]["members"] = [f"row {number:x} of {number * 7919:x}" for number in range(500)]
    write_platform(folder / "platform.json", platform)
    return run_manually(context)


def keys_of(context: RunContext, snapshot: Snapshot, resource: str = "members") -> dict[str, str]:
    files = manifest_files(context.state, snapshot.snapshot_id, resource)
    return {file.client_id: file.stored.key for file in files}


def is_intact(context: RunContext, snapshot: Snapshot, store: FileStore | None = None) -> bool:
    return verify_snapshot(context.state, store or context.store, snapshot.snapshot_id).damaged == ()


def test_retention_removes_unused_bytes(context: RunContext, folder: Path, clock: list[datetime]) -> None:
    first = publish(context, folder)
    old = keys_of(context, first)
    large, *small = (slice_of(old[leader]).length for leader in leader_ids(LEADERS)[:-1])
    assert large is None
    assert None not in small
    assert len({slice_of(key).key for key in old.values()}) > 2
    clock[0] += timedelta(days=1)
    second = publish(context, folder, 3)
    new = keys_of(context, second)
    assert second.report.files_carried
    packed = [leader for leader in new if leader and slice_of(new[leader]).length]
    assert [leader for leader in packed if new[leader] != old[leader]] == [leader_ids(LEADERS)[3]]
    assert is_intact(context, first)
    clock[0] += timedelta(hours=1)
    cleaned = clean(context.state, context.store, SETTINGS, clock[0])
    assert cleaned.retired == (first.snapshot_id,)
    assert is_intact(context, second)
    assert not b"".join(context.store.read(old[leader_ids(LEADERS)[3]])).strip(b"\0")
    clock[0] += timedelta(days=1)
    third = publish(context, folder, *range(LEADERS), mark="third")
    clock[0] += timedelta(hours=1)
    clean(context.state, context.store, SETTINGS, clock[0])
    assert is_intact(context, third)
    is_stored = context.store.presence()
    assert not any(is_stored(key, slice_of(key).length or 0) for key in (*old.values(), *new.values()))


def test_files_reused_after_another_publication_are_kept(
    context: RunContext, folder: Path, clock: list[datetime]
) -> None:
    """The snapshot between the deleted one and the one that reuses its files has none of them."""
    first = publish(context, folder)
    source = source_of(context)

    def publish_another(_resource: str) -> None:
        source.on_resource.clear()
        run_manually(context, full=True)

    clock[0] += timedelta(days=1)
    source.on_resource.append(publish_another)
    last = publish(context, folder, 3)
    assert last.report.carried_from == first.snapshot_id
    clock[0] += timedelta(hours=1)
    settings = configured(SETTINGS, snapshot={"keep": 2})
    assert clean(context.state, context.store, settings, clock[0]).retired == (first.snapshot_id,)
    served = context.state.read(lambda stores: stores.snapshots.served())
    assert len(served) == 2
    assert all(is_intact(context, snapshot) for snapshot in served)


def test_files_that_an_erasure_replaced_stay_in_later_snapshots(
    context: RunContext, folder: Path, clock: list[datetime]
) -> None:
    context, snapshots = replace(context, settings=configured(SETTINGS, snapshot={"keep": 2})), []
    for _ in range(3):
        snapshots.append(publish(context, folder))
        clock[0] += timedelta(days=1)
    first, second, third = (each.snapshot_id for each in snapshots)
    leader = leader_ids(LEADERS)[3]
    (old,) = context.state.read(lambda stores: stores.snapshots.entries_of(second, "members", [leader]))
    with context.store.revise(second, "a1") as revision:
        written = revision.write(leader, "members", "csv", [b"others"])
        revision.commit()
    new = structs.replace(old, formats={"csv": structs.replace(old.formats["csv"], **structs.asdict(written))})

    def replace_entry(stores: Stores) -> None:
        stores.snapshots.replace_entries(second, [old], [new], clock[0])
        erasure = stores.erasures.begin(Erasure(context.new_id(), "0" * 64, "test", clock[0]))
        stores.erasures.replace(erasure.erasure_id, [ReplacedFiles(second, leader, "members", 1)], [], [])

    context.state.write(replace_entry)
    assert clean(context.state, context.store, context.settings, clock[0]).retired == (first,)
    assert keys_of(context, snapshots[2])[leader] == old.formats["csv"].key
    assert verify_snapshot(context.state, context.store, third).damaged == ()


@pytest.mark.release
def test_upload_of_another_process_is_trimmed_again(
    context: RunContext, folder: Path, clock: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process uploads the pack that it read before."""
    first = publish(context, folder)
    old = keys_of(context, first)
    clock[0] += timedelta(days=1)
    second = publish(context, folder, 3, 4)
    trim = context.store.trim
    calls: list[str] = []

    def trim_twice(pack: str, slices: list[FileSlice]) -> bool:
        content = b"".join(context.store.read(pack))
        changed = trim(pack, slices)
        if changed and isinstance(context.store, ObjectStore) and not calls:
            calls.append(pack)
            context.store.put(pack, content, {})
        return changed

    monkeypatch.setattr(context.store, "trim", trim_twice)
    forget(context.state, context.store, first.snapshot_id, "unwanted", clock[0])
    assert is_intact(context, second)
    for number in (3, 4):
        assert not b"".join(context.store.read(old[leader_ids(LEADERS)[number]])).strip(b"\0")


@pytest.mark.release
def test_files_of_packs_with_little_in_use_are_moved(context: RunContext, folder: Path, clock: list[datetime]) -> None:
    first = publish(context, folder)
    clock[0] += timedelta(days=1)
    changed = [number for number in range(LEADERS) if number % 5]
    publish(context, folder, *changed)
    clock[0] += timedelta(days=1)
    third = publish(context, folder, *changed)
    assert third.report.files_carried == LEADERS * 8 - 8
    packs = {slice_of(key).key for key in keys_of(context, third).values()}
    assert not any(first.snapshot_id in pack for pack in packs if pack.endswith(".pack"))
    assert is_intact(context, third)


def test_packs_are_copied_once(context: RunContext, folder: Path, tmp_path: Path) -> None:
    snapshot = publish(context, folder)
    changed = publish(context, folder, 5)
    target = LocalDisk(tmp_path / "target")
    copied = copy_files(context.state, context.store, target, 2, lambda _: None)
    assert copied.faults == []
    assert is_intact(context, snapshot, target)
    assert is_intact(context, changed, target)
    again = copy_files(context.state, context.store, target, 2, lambda _: None)
    assert (again.files, again.present, again.faults) == (0, copied.files, [])


def test_damage_of_one_packed_file_is_named(folder: Path, tmp_path: Path) -> None:
    """The next run writes the files of the Leader again; a copy has all others."""
    with open_context(folder, store=LocalDisk(folder / "files", PACKING), settings=SETTINGS) as context:
        snapshot = publish(context, folder)
        key = keys_of(context, snapshot)[leader_ids(LEADERS)[5]]
        part = slice_of(key)
        with (folder / "files" / part.key).open("r+b") as file:
            file.seek(part.offset + 20)
            file.write(b"damage")
        (damaged,) = verify_snapshot(context.state, context.store, snapshot.snapshot_id).damaged
        assert damaged.file.stored.key == key
        target = LocalDisk(tmp_path / "target")
        copied = copy_files(context.state, context.store, target, 2, lambda _: None)
        (fault,) = copied.faults
        assert key in fault
        assert "copied to the target" in fault
        (in_target,) = verify_snapshot(context.state, target, snapshot.snapshot_id).damaged
        assert in_target.file.stored.key == key


def test_lost_pack_is_written_again(folder: Path) -> None:
    with open_context(folder, store=LocalDisk(folder / "files", PACKING), settings=SETTINGS) as context:
        snapshot = publish(context, folder)
        lost = slice_of(keys_of(context, snapshot)[leader_ids(LEADERS)[5]]).key
        (folder / "files" / lost).unlink()
        second = publish(context, folder)
        assert second.report.files_carried
        assert is_intact(context, second)
        assert not any(slice_of(key).key == lost for key in keys_of(context, second).values())


def test_lost_pack_is_counted_in_each_snapshot(context: RunContext, folder: Path, clock: list[datetime]) -> None:
    context = replace(context, settings=configured(SETTINGS, snapshot={"keep": 4}))
    snapshots = []
    for changed in ((), (3,), (3, 4)):
        snapshots.append(publish(context, folder, *changed))
        clock[0] += timedelta(days=1)
    first, second, third = snapshots
    lost = slice_of(keys_of(context, third)[leader_ids(LEADERS)[3]]).key
    assert second.snapshot_id in lost
    in_pack = [
        len([key for name in RESOURCE_NAMES for key in keys_of(context, each, name).values() if key.startswith(lost)])
        for each in snapshots
    ]
    context.store.delete([lost])
    fourth = publish(context, folder, 3, 4)
    faults = context.state.read(lambda stores: stores.file_faults.list_all())
    found = {fault.snapshot_id: fault.files for fault in faults}
    assert [found.get(each.snapshot_id, 0) for each in snapshots] == in_pack
    assert in_pack[0] == 0 < in_pack[2]
    assert is_intact(context, first)
    assert is_intact(context, fourth)


def test_files_stay_when_packs_are_turned_on_and_off(folder: Path) -> None:
    plain = context_in(folder, store=LocalDisk(folder / "files", NO_PACKS), settings=SETTINGS)
    packed = replace(plain, store=LocalDisk(folder / "files", PACKING))
    try:
        first = publish(plain, folder)
        second = publish(packed, folder, 3)
        third = publish(plain, folder, 3, 4)
        assert second.report.files_carried
        assert third.report.files_carried
        for snapshot in (first, second, third):
            assert is_intact(plain, snapshot)
    finally:
        plain.state.close()


@pytest.mark.release
def test_two_thousand_leaders_need_few_packs(folder: Path) -> None:
    packing = Packing(file_bytes=65_536, pack_bytes=100_000)
    with open_context(folder, store=LocalDisk(folder / "files", packing), settings=SETTINGS) as context:
        snapshot = publish(context, folder, leaders=2_100)
        files = [path for path in (folder / "files").rglob("*") if path.is_file()]
        verified = verify_snapshot(context.state, context.store, snapshot.snapshot_id)
        assert verified.damaged == ()
        assert verified.files > 2_099 * 8
        packs = [path for path in files if path.suffix == ".pack"]
        assert verified.bytes / 100_000 <= len(packs) < verified.bytes / 100_000 * 1.1 + 2
        assert max(path.stat().st_size for path in packs) <= 100_000
        changed = publish(context, folder, *range(1, 22), leaders=2_100)
        assert changed.report.files_carried is not None
        assert changed.report.files_carried > 2_070 * 8
        forget(context.state, context.store, snapshot.snapshot_id, "unwanted", now())
        assert is_intact(context, changed)
