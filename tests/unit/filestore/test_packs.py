"""Packs on a local disk: writing, reading, reuse, trimming and deletion."""

import os
import tracemalloc
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.filestore import local_disk
from daybreak.filestore.file_keys import slice_key, slice_of
from daybreak.filestore.file_store import FileSlice, WrittenFile
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.local_packs import _WRITE_BYTES
from daybreak.filestore.packs import Packing, PackReader, UsedObjects, new_pack, pack_folder

LIMIT = 1000
CLIENT_IDS = [str(uuid.UUID(int=number, version=4)) for number in range(1, 41)]


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path / "files", Packing(LIMIT, 4096))


def content_of(number: int, size_bytes: int = 300) -> bytes:
    return f"row of {number} ".encode().ljust(size_bytes, b"x")


def written_snapshot(disk: LocalDisk, snapshot_id: str) -> list[WrittenFile]:
    sink = disk.stage(snapshot_id)
    files = [
        sink.write(each, "members", "csv", [content_of(number)[:100], memoryview(content_of(number))[100:]])
        for number, each in enumerate(CLIENT_IDS)
    ]
    sink.commit()
    return files


def stored(disk_root: Path) -> list[Path]:
    return sorted(each for each in disk_root.rglob("*") if each.is_file())


@pytest.mark.parametrize("size_bytes", [LIMIT - 1, LIMIT, LIMIT + 1])
def test_files_up_to_the_limit_are_packed(disk: LocalDisk, size_bytes: int) -> None:
    sink = disk.stage(str(uuid.uuid4()))
    file = sink.write(CLIENT_IDS[0], "members", "csv", [bytes(500), bytes(size_bytes - 500)])
    sink.commit()
    assert (slice_of(file.key).length is not None) == (size_bytes <= LIMIT)
    disk.check(file.key, size_bytes, file.sha256)
    assert b"".join(disk.read(file.key)) == bytes(size_bytes)


async def test_small_files_share_packs_and_deltas_have_others(disk: LocalDisk, tmp_path: Path) -> None:
    snapshot_id = str(uuid.uuid4())
    sink = disk.stage(snapshot_id)
    files = [sink.write(each, "members", "csv", [content_of(n)]) for n, each in enumerate(CLIENT_IDS)]
    delta = sink.write(CLIENT_IDS[0], "members", "delta_csv", [b"delta"])
    sink.commit()
    # 13 files of 300 bytes fit in 4096.
    assert len(stored(tmp_path / "files")) == 4 + 1
    assert delta.key.startswith(f"deltas/{snapshot_id}/packs/")
    is_stored = disk.presence()
    for number, file in enumerate(files):
        disk.check(file.key, file.bytes, file.sha256)
        assert await disk.packed(file.key) == content_of(number)
        assert b"".join(disk.read(file.key, 7, 5)) == content_of(number)[7:12]
        assert b"".join(disk.read(file.key, 290, 500)) == content_of(number)[290:]
        assert is_stored(file.key, file.bytes)
        assert not is_stored(file.key, file.bytes + 1)
    assert disk.remove("snapshots", snapshot_id, frozenset()) == 4
    assert b"".join(disk.read(delta.key)) == b"delta"
    assert disk.remove("deltas", snapshot_id) == 1
    assert stored(tmp_path / "files") == []


def test_files_of_several_threads_are_written_in_groups(tmp_path: Path) -> None:
    """Groups end before, at and after the size of a write, and with the pack."""
    disk = LocalDisk(tmp_path / "files", Packing(_WRITE_BYTES + 1, 3 * _WRITE_BYTES))
    sizes = [_WRITE_BYTES - 10, 10, _WRITE_BYTES, 10, _WRITE_BYTES + 1, 70, *[_WRITE_BYTES // 3] * 20]
    sink = disk.stage(str(uuid.uuid4()))

    def write(client_id: str) -> list[WrittenFile]:
        return [
            sink.write(client_id, resource, "csv", [content_of(number, size)])
            for number, size in enumerate(sizes)
            for resource in ("members", "communities")
        ]

    with ThreadPoolExecutor(4) as pool:
        files = list(chain.from_iterable(pool.map(write, CLIENT_IDS[:4])))
    sink.commit()
    assert len({file.key for file in files}) == 8 * len(sizes)
    for file in files:
        disk.check(file.key, file.bytes, file.sha256)
    assert sum(path.stat().st_size for path in stored(tmp_path / "files")) == sum(file.bytes for file in files)


def test_discarded_run_leaves_no_pack(disk: LocalDisk, tmp_path: Path) -> None:
    sink = disk.stage(str(uuid.uuid4()))
    sink.write(CLIENT_IDS[0], "members", "csv", [b"row"])
    sink.discard()
    assert stored(tmp_path / "files") == []


def test_reused_file_keeps_its_pack(disk: LocalDisk) -> None:
    old = str(uuid.uuid4())
    files = written_snapshot(disk, old)
    sink = disk.stage(str(uuid.uuid4()))
    assert sink.reuse(files[3].key, files[3].bytes) == files[3].key
    sink.commit()
    # Three of four packs have no file in use.
    assert disk.remove("snapshots", old, UsedObjects([files[3].key]).keys) == 3
    disk.check(files[3].key, files[3].bytes, files[3].sha256)


def test_trimmed_pack_has_only_the_files_in_use(disk: LocalDisk, tmp_path: Path) -> None:
    old = str(uuid.uuid4())
    files = written_snapshot(disk, old)
    kept = {files[0].key, files[5].key, files[12].key}
    used = UsedObjects(kept)
    (pack,) = used.packs
    slices = used.slices(pack)
    disk.remove("snapshots", old, used.keys)
    assert not disk.trim(pack, slices)  # no other process restores the bytes
    content = b"".join(each.read_bytes() for each in stored(tmp_path / "files"))
    for number in range(len(files)):
        assert (content_of(number)[:10] in content) == (number in (0, 5, 12))
    for number in (0, 5, 12):
        disk.check(files[number].key, files[number].bytes, files[number].sha256)
    before = (tmp_path / "files" / pack).stat().st_ino
    disk.trim(pack, slices)
    assert (tmp_path / "files" / pack).stat().st_ino == before
    disk.trim(pack.replace(".pack", "0.pack"), slices)  # missing


def test_damaged_or_short_pack_is_detected(disk: LocalDisk, tmp_path: Path) -> None:
    files = written_snapshot(disk, str(uuid.uuid4()))
    path = tmp_path / "files" / slice_of(files[1].key).key
    os.truncate(path, 450)
    disk.check(files[0].key, files[0].bytes, files[0].sha256)
    with pytest.raises(FileDamaged):
        disk.check(files[1].key, files[1].bytes, files[1].sha256)
    assert not disk.presence()(files[1].key, files[1].bytes)


def test_reading_back_opens_each_pack_once(disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written_snapshot(disk, str(uuid.uuid4()))
    opened: list[str] = []
    open_file = local_disk._open_regular

    def counted(path: str, flags: int) -> int:
        opened.append(path)
        return open_file(path, flags)

    monkeypatch.setattr(local_disk, "_open_regular", counted)
    with disk.checking() as check:
        for file in files:
            check(file.key, file.bytes, file.sha256)
        with pytest.raises(FileDamaged):
            check(files[0].key, files[0].bytes, files[1].sha256)
        with pytest.raises(FileStoreError):
            check(files[0].key.replace(".pack", "0.pack"), files[0].bytes, files[0].sha256)
    packs = [str(each) for each in stored(tmp_path / "files")]
    assert sorted(opened[:-1]) == packs
    assert not {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.exists()} & set(packs)


@pytest.mark.parametrize("place", ["@", "@1", "@-1+5", "@1+0", "@01+5", "@1+5@1+5", "@1+5/../x"])
def test_invalid_slice_is_refused(disk: LocalDisk, place: str) -> None:
    key = f"snapshots/{uuid.uuid4()}/packs/a.pack{place}"
    with pytest.raises(FileStoreError):
        b"".join(disk.read(key))


def test_neighbors_in_a_pack_are_read_together(disk: LocalDisk) -> None:
    snapshot_id = str(uuid.uuid4())
    files = written_snapshot(disk, snapshot_id)
    sink = disk.stage(str(uuid.uuid4()))
    large = sink.write(CLIENT_IDS[0], "members", "json", [content_of(0, 5000)])
    sink.commit()
    reads: list[str] = []

    def read(key: str, start: int, length: int | None) -> Iterator[bytes]:
        reads.append(key)
        return disk.read(key, start, length)

    reader = PackReader(read)
    for number, file in enumerate(files):
        assert b"".join(reader.read(file.key)) == content_of(number)
    assert b"".join(reader.read(large.key)) == content_of(0, 5000)
    assert sorted(reads) == sorted({*(slice_of(file.key).key for file in files), large.key})


def test_files_in_use_take_little_memory() -> None:
    """Without neighbors, so that no ranges are joined."""
    count, pack = 20_000, new_pack(pack_folder(f"snapshots/{uuid.uuid4()}"))
    places = [number * 7919 % count * 1000 for number in range(count)]
    used = UsedObjects()
    tracemalloc.start()
    try:
        for _ in range(2):
            used.add(slice_key(pack, place, 900) for place in places)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used.slices(pack) == [FileSlice(pack, place, 900) for place in sorted(places)]
    assert kept < 24 * count


def test_neighbors_in_use_are_one_range() -> None:
    pack = new_pack(pack_folder(f"snapshots/{uuid.uuid4()}"))
    used = UsedObjects(slice_key(pack, place * 10, 10) for place in (1, 7, 2, 8, 3, 1))
    used.add([slice_key(pack, 90, 5), "snapshots/other"])
    assert used.slices(pack) == [FileSlice(pack, 10, 30), FileSlice(pack, 70, 25)]
    assert used.slices("another") == []
    assert (set(used.packs), used.keys) == ({pack}, {pack, "snapshots/other"})
