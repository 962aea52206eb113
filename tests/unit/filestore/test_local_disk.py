"""Files on local disk: whole or not at all, under names that cannot leave the folder."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.filestore.keys import relative_name, split_key
from daybreak.filestore.local_disk import LocalDisk

LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path / "files")


def new_id() -> str:
    return str(uuid.uuid4())


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def path_of(disk: LocalDisk, key: str) -> Path:
    """Where a stored file lies."""
    with disk.open_local(key) as octets:
        return Path(octets.name)


def test_what_is_written_is_read_back_after_sealing(disk: LocalDisk) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    written = sink.write(LEADER, "members", "csv", [b"one", memoryview(b"two")])
    assert written.bytes == 6
    assert written.sha256 == hashlib.sha256(b"onetwo").hexdigest()
    assert written.key == f"snapshots/{snapshot_id}/d9/{LEADER}.members.csv.gz"
    with pytest.raises(FileStoreError):
        disk.open_local(written.key)
    sink.seal()
    disk.check(written.key, 6, written.sha256)
    with disk.open_local(written.key) as octets:
        assert octets.read() == b"onetwo"
    assert b"".join(disk.read(written.key)) == b"onetwo"


def test_a_file_that_is_not_what_the_manifest_says_is_damaged(disk: LocalDisk) -> None:
    sink = disk.stage(new_id())
    written = sink.write("", "members", "csv", [b"header"])
    sink.seal()
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


def test_a_file_whose_making_fails_leaves_nothing(disk: LocalDisk, tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("the encoder broke")

    sink = disk.stage(new_id())
    with pytest.raises(RuntimeError):
        sink.write(LEADER, "members", "csv", pieces())
    assert all_files(tmp_path) == []


def test_a_file_written_twice_is_the_second_one_whole(disk: LocalDisk, tmp_path: Path) -> None:
    sink = disk.stage(new_id())
    sink.write(LEADER, "members", "csv", [b"a longer first try"])
    second = sink.write(LEADER, "members", "csv", [b"second"])
    sink.seal()
    assert b"".join(disk.read(second.key)) == b"second"
    assert len(all_files(tmp_path)) == 1


def test_a_failed_second_try_leaves_the_first_file(disk: LocalDisk, tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise RuntimeError("the task was lost")

    sink = disk.stage(new_id())
    first = sink.write(LEADER, "members", "csv", [b"first"])
    with pytest.raises(RuntimeError):
        sink.write(LEADER, "members", "csv", pieces())
    sink.seal()
    assert b"".join(disk.read(first.key)) == b"first"
    assert len(all_files(tmp_path)) == 1


def test_what_a_killed_second_try_had_begun_is_no_part_of_the_snapshot(disk: LocalDisk, tmp_path: Path) -> None:
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
    sink.seal()
    assert b"".join(disk.read(first.key)) == b"first"
    assert len(all_files(tmp_path)) == 1


def test_many_threads_write_at_once(disk: LocalDisk, tmp_path: Path) -> None:
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
    sink.seal()
    assert len(all_files(tmp_path)) == 40


def test_carried_files_share_their_bytes_and_outlive_the_snapshot_they_came_from(disk: LocalDisk) -> None:
    old, new = new_id(), new_id()
    sink = disk.stage(old)
    written = sink.write(LEADER, "members", "csv", [b"rows"])
    sink.seal()
    after = disk.stage(new)
    key = after.carry(written.key)
    assert after.carry(written.key) == key, "a task that is tried again finds its link"
    after.seal()
    path = path_of(disk, key)
    assert path.stat().st_nlink == 2
    assert disk.remove(old, frozenset()) == 1
    disk.check(key, 4, written.sha256)


def test_a_file_that_is_gone_is_not_carried(disk: LocalDisk) -> None:
    with pytest.raises(FileStoreError):
        disk.stage(new_id()).carry(f"snapshots/{new_id()}/d9/{LEADER}.members.csv.gz")


def test_a_disk_without_hard_links_gets_copies(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_args: object, **_more: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    sink = disk.stage(new_id())
    written = sink.write(LEADER, "members", "csv", [b"rows"])
    sink.seal()
    monkeypatch.setattr(os, "link", no_links)
    after = disk.stage(new_id())
    key = after.carry(written.key)
    after.seal()
    disk.check(key, 4, written.sha256)


def test_discard_removes_everything_before_and_after_sealing(disk: LocalDisk, tmp_path: Path) -> None:
    for sealed in (False, True):
        sink = disk.stage(new_id())
        sink.write(LEADER, "members", "csv", [b"rows"])
        if sealed:
            sink.seal()
        sink.discard()
        assert all_files(tmp_path) == []
        assert disk.snapshot_ids() == []


def test_a_folder_that_takes_no_files_is_named(disk: LocalDisk, tmp_path: Path) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    sink.write(LEADER, "members", "csv", [b"a"])
    (tmp_path / "files" / "snapshots").rename(tmp_path / "elsewhere")
    with pytest.raises(FileStoreError, match=f"files/snapshots/{snapshot_id}: No such file"):
        sink.seal()


def test_what_lies_there_is_listed_staged_or_sealed(disk: LocalDisk) -> None:
    staged, sealed = new_id(), new_id()
    disk.stage(staged).write(LEADER, "members", "csv", [b"rows"])
    sink = disk.stage(sealed)
    sink.write("", "members", "csv", [b"x"])
    sink.seal()
    assert disk.snapshot_ids() == sorted([staged, sealed])
    assert disk.remove(staged, frozenset()) == 1
    assert disk.remove(sealed, frozenset()) == 1
    assert disk.remove(sealed, frozenset()) == 0
    assert disk.snapshot_ids() == []


def test_keys_that_are_kept_stay_when_their_snapshot_goes(disk: LocalDisk) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    kept = sink.write(LEADER, "members", "csv", [b"kept"])
    gone = sink.write(LEADER, "members", "json", [b"gone"])
    sink.seal()
    assert disk.remove(snapshot_id, frozenset({kept.key})) == 1
    disk.check(kept.key, 4, kept.sha256)
    with pytest.raises(FileStoreError):
        disk.open_local(gone.key)


def test_a_sink_travels_to_another_process(disk: LocalDisk) -> None:
    sink = disk.stage(new_id())
    copy = pickle.loads(pickle.dumps(sink))
    written = copy.write(LEADER, "members", "csv", [b"from a task"])
    sink.seal()
    disk.check(written.key, 11, written.sha256)


def test_others_on_the_machine_may_not_look(disk: LocalDisk, tmp_path: Path) -> None:
    sink = disk.stage(new_id())
    written = sink.write(LEADER, "members", "csv", [b"rows"])
    sink.seal()
    path = path_of(disk, written.key)
    assert path.stat().st_mode & 0o007 == 0
    for name in ("staging", "snapshots"):
        assert (tmp_path / "files" / name).stat().st_mode & 0o007 == 0


def test_a_link_out_of_the_folder_is_not_followed(disk: LocalDisk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    sink = disk.stage(new_id())
    written = sink.write(LEADER, "members", "csv", [b"secret"])
    sink.seal()
    path = path_of(disk, written.key)
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(FileStoreError):
        list(disk.read(written.key))
    with pytest.raises(FileStoreError):
        disk.open_local(written.key)


def test_the_store_says_when_it_works_and_how_much_room_it_has(disk: LocalDisk, tmp_path: Path) -> None:
    disk.probe()
    assert all_files(tmp_path) == []
    free = disk.free_bytes()
    assert free is not None
    assert free > 0


hostile = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["..", "../../etc/passwd", "/etc/passwd", "a/../b", "", ".", "csv\0", "%2e%2e", "staging/x"]),
)


@given(hostile, hostile, hostile)
def test_no_name_leaves_the_snapshot(client_id: str, resource: str, format: str) -> None:
    try:
        name = relative_name(client_id, resource, format)
    except FileStoreError:
        return
    assert os.path.normpath(name) == name
    assert not name.startswith(("/", ".."))


@given(st.one_of(hostile, st.lists(hostile, max_size=4).map(lambda parts: "/".join(["snapshots", new_id(), *parts]))))
def test_no_key_leaves_the_store(key: str) -> None:
    try:
        snapshot_id, name = split_key(key)
    except FileStoreError:
        return
    path = f"snapshots/{snapshot_id}/{name}"
    assert os.path.normpath(path) == path
    assert "\0" not in path


def test_a_file_that_another_try_wrote_gives_way_to_the_one_that_is_carried_over(
    disk: LocalDisk, tmp_path: Path
) -> None:
    sink = disk.stage(new_id())
    written = sink.write(LEADER, "members", "csv", [b"rows"])
    sink.seal()
    after = disk.stage(new_id())
    after.write(LEADER, "members", "csv", [b"half of the ro"])
    key = after.carry(written.key)
    after.seal()
    assert b"".join(disk.read(key)) == b"rows"
    assert len(all_files(tmp_path)) == 2


def test_two_cleaners_at_once_do_not_stumble_over_each_other(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot_id = new_id()
    sink = disk.stage(snapshot_id)
    for format in ("csv", "json"):
        sink.write(LEADER, "members", format, [b"rows"])
    sink.seal()
    unlink = os.unlink
    by_the_other: list[int] = []

    def interrupted(path: str) -> None:
        # The other cleaner comes between what this one has listed and what it removes.
        monkeypatch.setattr(os, "unlink", unlink)
        by_the_other.append(disk.remove(snapshot_id, frozenset()))
        unlink(path)

    monkeypatch.setattr(os, "unlink", interrupted)
    assert disk.remove(snapshot_id, frozenset()) == 0
    assert by_the_other == [2]
    assert all_files(tmp_path) == []
