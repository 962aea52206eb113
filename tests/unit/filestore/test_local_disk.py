"""File store on local disk: atomic writes, reuse, deletion, and names that stay within its folder."""

import hashlib
import os
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.filestore import local_sink
from daybreak.filestore.file_keys import relative_name, split_key
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.packs import NO_PACKS
from tests.parts.replaced import with_functions
from tests.parts.stored_files import LEADER, store_file


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path / "files", NO_PACKS)


def new_id() -> str:
    return str(uuid.uuid4())


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def path_of(disk: LocalDisk, key: str) -> Path:
    """Return the path of a stored file."""
    opened = disk.open_local(key)
    assert opened is not None
    with opened as octets:
        return Path(octets.name)


def test_reused_file_of_another_size_is_refused(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path, NO_PACKS)
    written = store_file(disk)
    (tmp_path / written.key).write_bytes(b"other rows")
    with pytest.raises(FileDamaged, match="10 bytes instead of 4"):
        disk.stage(new_id()).reuse(written.key, written.bytes)


def test_committed_file_is_read_back(disk: LocalDisk) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    written = sink.write(LEADER, "members", "csv", [b"one", memoryview(b"two")])
    assert written.bytes == 6
    assert written.sha256 == hashlib.sha256(b"onetwo").hexdigest()
    assert written.key == f"snapshots/{snapshot_id}/d9/{LEADER}.members.csv.gz"
    with pytest.raises(FileStoreError):
        disk.open_local(written.key)
    sink.commit()
    disk.check(written.key, 6, written.sha256)
    assert path_of(disk, written.key).read_bytes() == b"onetwo"
    assert b"".join(disk.read(written.key)) == b"onetwo"


def test_damaged_or_missing_file_is_detected(disk: LocalDisk) -> None:
    sink = disk.stage(new_id())
    written = sink.write("", "members", "csv", [b"header"])
    sink.commit()
    path = path_of(disk, written.key)
    path.write_bytes(b"hEader")
    with pytest.raises(FileDamaged):
        disk.check(written.key, 6, written.sha256)
    path.write_bytes(b"head")
    with pytest.raises(FileDamaged):
        disk.check(written.key, 6, written.sha256)
    path.unlink()
    with pytest.raises(FileStoreError):
        disk.check(written.key, 6, written.sha256)


def test_failed_write_leaves_no_file(disk: LocalDisk, tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("encoder error")

    sink = disk.stage(new_id())
    with pytest.raises(RuntimeError):
        sink.write(LEADER, "members", "csv", pieces())
    assert all_files(tmp_path) == []


def test_second_write_replaces_the_first(disk: LocalDisk, tmp_path: Path) -> None:
    sink = disk.stage(new_id())
    sink.write(LEADER, "members", "csv", [b"a longer first attempt"])
    second = sink.write(LEADER, "members", "csv", [b"second"])
    sink.commit()
    assert b"".join(disk.read(second.key)) == b"second"
    assert len(all_files(tmp_path)) == 1


def test_part_of_a_file_is_read(disk: LocalDisk) -> None:
    sink = disk.stage(new_id())
    content = bytes(range(256)) * 10_000
    written = sink.write(LEADER, "members", "csv", [content])
    sink.commit()
    assert b"".join(disk.read(written.key, 5, 2_000_000)) == content[5:2_000_005]
    assert b"".join(disk.read(written.key, len(content) - 2, 9)) == content[-2:]


def test_failed_second_write_keeps_the_first_file(disk: LocalDisk, tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise RuntimeError("task lost")

    sink = disk.stage(new_id())
    first = sink.write(LEADER, "members", "csv", [b"first"])
    with pytest.raises(RuntimeError):
        sink.write(LEADER, "members", "csv", pieces())
    sink.commit()
    assert b"".join(disk.read(first.key)) == b"first"
    assert len(all_files(tmp_path)) == 1


def test_temporary_file_of_a_killed_task_is_deleted(disk: LocalDisk, tmp_path: Path) -> None:
    sink = disk.stage(new_id())
    first = sink.write(LEADER, "members", "csv", [b"first"])
    script = (
        "import os, pickle, sys\n"
        "def pieces():\n"
        "    yield b'half'\n"
        "    os._exit(9)\n"
        "pickle.load(sys.stdin.buffer).write(sys.argv[1], 'members', 'csv', pieces())\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, LEADER], input=pickle.dumps(sink), check=False)
    assert killed.returncode == 9
    assert len(all_files(tmp_path)) == 2
    sink.commit()
    assert b"".join(disk.read(first.key)) == b"first"
    assert len(all_files(tmp_path)) == 1


def test_several_threads_write_in_parallel(disk: LocalDisk, tmp_path: Path) -> None:
    sink = disk.stage(new_id())
    leaders = [new_id() for _ in range(40)]

    def work(some: list[str]) -> None:
        for leader in some:
            sink.write(leader, "members", "csv", [leader.encode()])

    threads = [threading.Thread(target=work, args=(leaders[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.commit()
    assert len(all_files(tmp_path)) == 40


def test_reused_file_is_a_hard_link(disk: LocalDisk) -> None:
    old, new = new_id(), new_id()
    written = store_file(disk, snapshot_id=old)
    after = disk.stage(new)
    key = after.reuse(written.key, written.bytes)
    assert after.reuse(written.key, written.bytes) == key, "a repeated task returns the same key"
    after.commit()
    path = path_of(disk, key)
    assert path.stat().st_nlink == 2
    assert disk.remove("snapshots", old, frozenset()) == 1
    disk.check(key, 4, written.sha256)


def test_missing_file_cannot_be_reused(disk: LocalDisk) -> None:
    with pytest.raises(FileStoreError):
        disk.stage(new_id()).reuse(f"snapshots/{new_id()}/d9/{LEADER}.members.csv.gz", 1)


def test_reused_file_is_copied_without_hard_links(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_args: object, **_more: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    written = store_file(disk)
    monkeypatch.setattr(local_sink, "os", with_functions(os, link=no_links))
    after = disk.stage(new_id())
    key = after.reuse(written.key, written.bytes)
    after.commit()
    disk.check(key, 4, written.sha256)


def test_discard_deletes_all_files(disk: LocalDisk, tmp_path: Path) -> None:
    for committed in (False, True):
        sink = disk.stage(new_id())
        sink.write(LEADER, "members", "csv", [b"rows"])
        if committed:
            sink.commit()
        sink.discard()
        assert all_files(tmp_path) == []
        assert disk.ids("snapshots") == []


def test_failed_commit_names_the_folder(disk: LocalDisk, tmp_path: Path) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    sink.write(LEADER, "members", "csv", [b"a"])
    (tmp_path / "files" / "snapshots").rename(tmp_path / "elsewhere")
    with pytest.raises(FileStoreError, match=f"files/snapshots/{snapshot_id}: No such file"):
        sink.commit()


def test_staged_and_committed_snapshots_are_listed(disk: LocalDisk) -> None:
    staged, committed = new_id(), new_id()
    disk.stage(staged).write(LEADER, "members", "csv", [b"rows"])
    sink = disk.stage(committed)
    sink.write("", "members", "csv", [b"x"])
    sink.commit()
    assert disk.ids("snapshots") == sorted([staged, committed])
    assert disk.remove("snapshots", staged, frozenset()) == 1
    assert disk.remove("snapshots", committed, frozenset()) == 1
    assert disk.remove("snapshots", committed, frozenset()) == 0
    assert disk.ids("snapshots") == []


def test_kept_file_is_not_deleted_with_its_snapshot(disk: LocalDisk) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    kept = sink.write(LEADER, "members", "csv", [b"kept"])
    deleted = sink.write(LEADER, "members", "json", [b"deleted"])
    sink.commit()
    assert disk.remove("snapshots", snapshot_id, frozenset({kept.key})) == 1
    disk.check(kept.key, 4, kept.sha256)
    with pytest.raises(FileStoreError):
        disk.open_local(deleted.key)


def test_pickled_sink_writes_in_another_process(disk: LocalDisk) -> None:
    sink = disk.stage(new_id())
    copy = pickle.loads(pickle.dumps(sink))
    written = copy.write(LEADER, "members", "csv", [b"from a task"])
    sink.commit()
    disk.check(written.key, 11, written.sha256)


def test_other_users_have_no_access(disk: LocalDisk, tmp_path: Path) -> None:
    written = store_file(disk)
    path = path_of(disk, written.key)
    assert path.stat().st_mode & 0o007 == 0
    for name in ("staging", "snapshots"):
        assert (tmp_path / "files" / name).stat().st_mode & 0o007 == 0


def test_symbolic_link_is_not_followed(disk: LocalDisk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    written = store_file(disk, b"secret")
    path = path_of(disk, written.key)
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(FileStoreError):
        list(disk.read(written.key))
    with pytest.raises(FileStoreError):
        disk.open_local(written.key)


def test_probe_leaves_no_file_and_free_space_is_known(disk: LocalDisk, tmp_path: Path) -> None:
    disk.probe()
    assert all_files(tmp_path) == []
    free = disk.free_space()
    assert free is not None
    assert free.bytes > 0


malicious = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["..", "../../etc/passwd", "/etc/passwd", "a/../b", "", ".", "csv\0", "%2e%2e", "staging/x"]),
)


@given(malicious, malicious, malicious)
def test_file_name_stays_within_its_snapshot(client_id: str, resource: str, format: str) -> None:
    try:
        name = relative_name(client_id, resource, format)
    except FileStoreError:
        return
    assert os.path.normpath(name) == name
    assert not name.startswith(("/", ".."))


@given(
    st.one_of(malicious, st.lists(malicious, max_size=4).map(lambda parts: "/".join(["snapshots", new_id(), *parts])))
)
def test_key_stays_within_the_store(key: str) -> None:
    try:
        snapshot_id, name = split_key(key)
    except FileStoreError:
        return
    path = f"snapshots/{snapshot_id}/{name}"
    assert os.path.normpath(path) == path
    assert "\0" not in path


def test_reused_file_replaces_that_of_an_earlier_attempt(disk: LocalDisk, tmp_path: Path) -> None:
    written = store_file(disk)
    after = disk.stage(new_id())
    after.write(LEADER, "members", "csv", [b"partial ro"])
    key = after.reuse(written.key, written.bytes)
    after.commit()
    assert b"".join(disk.read(key)) == b"rows"
    assert len(all_files(tmp_path)) == 2


def test_two_processes_can_delete_the_same_files(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    for format in ("csv", "json"):
        sink.write(LEADER, "members", format, [b"rows"])
    sink.commit()
    other_removed: list[int] = []

    def interrupted(path: str) -> None:
        # The other process deletes the files after this one has listed them.
        monkeypatch.setattr(local_sink, "os", os)
        other_removed.append(disk.remove("snapshots", snapshot_id, frozenset()))
        Path(path).unlink()

    monkeypatch.setattr(local_sink, "os", with_functions(os, unlink=interrupted))
    assert disk.remove("snapshots", snapshot_id, frozenset()) == 0
    assert other_removed == [2]
    assert all_files(tmp_path) == []


def test_revision_adds_files_to_a_stored_snapshot(disk: LocalDisk, tmp_path: Path) -> None:
    """They have new keys, and are deleted with the snapshot."""
    snapshot_id = new_id()
    old = store_file(disk, b"old", snapshot_id)
    with disk.revise(snapshot_id, "aa") as interrupted:
        interrupted.write(LEADER, "members", "csv", [b"lost"])
    with disk.revise(snapshot_id, "bb") as revision:
        new = revision.write(LEADER, "members", "csv", [b"n", b"ew"])
        assert new.key == revision.key(LEADER, "members", "csv") != old.key
        with pytest.raises(FileStoreError):
            disk.open_local(new.key)
        revision.commit()
    assert b"".join(disk.read(new.key)) == b"new"
    assert b"".join(disk.read(old.key)) == b"old"
    disk.check(new.key, new.bytes, new.sha256)
    assert all_files(tmp_path / "files") == sorted([old.key, new.key])
    assert path_of(disk, new.key).stat().st_mode & 0o777 == 0o640
    later = disk.stage(new_id())
    assert b"".join(disk.read(new.key)) == b"new"
    assert later.reuse(new.key, new.bytes) != new.key
    assert disk.remove("snapshots", snapshot_id, frozenset()) == 2


def test_revisions_wait_for_each_other(disk: LocalDisk) -> None:
    """They use the same staging folder."""
    snapshot_id = new_id()
    store_file(disk, b"old", snapshot_id)

    def revise(number: int) -> str:
        with disk.revise(snapshot_id, f"{number:02x}") as revision:
            written = revision.write(LEADER, "members", "csv", [b"new"])
            revision.commit()
        return written.key

    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(revise, range(40)))
    assert {b"".join(disk.read(key)) for key in keys} == {b"new"}
    assert len(set(keys)) == len(keys)


def test_single_files_are_deleted(disk: LocalDisk, tmp_path: Path) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    keys = [sink.write(LEADER, resource, "csv", [b"x"]).key for resource in ("members", "campaigns")]
    sink.commit()
    disk.delete([keys[0], keys[0].replace("members", "missing"), f"snapshots/{new_id()}/aa/missing.csv.gz"])
    assert all_files(tmp_path / "files") == [keys[1]]
    with pytest.raises(FileStoreError):
        disk.delete(["../state.db"])
