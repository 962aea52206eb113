"""Background flushes of written files, and their errors."""

import ctypes
import errno
import uuid
from pathlib import Path

import pytest

from daybreak.domain.errors import FileStoreError
from daybreak.filestore import durability
from daybreak.filestore.local_disk import LocalDisk

LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"


class SyncCounter:
    """The C library with a syncfs that counts calls. The next `failures` calls fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = durability._libc.syncfs
        self.calls = 0
        self.failures = 0
        monkeypatch.setattr(durability, "_libc", self)
        monkeypatch.setattr(durability, "_SYNC_BYTES", 1000)

    def syncfs(self, handle: int) -> int:
        self.calls += 1
        if self.failures:
            self.failures -= 1
            ctypes.set_errno(errno.EIO)
            return -1
        return int(self._real(handle))


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> SyncCounter:
    return SyncCounter(monkeypatch)


def test_flush_starts_while_the_run_writes(tmp_path: Path, syncs: SyncCounter) -> None:
    sink = LocalDisk(tmp_path / "files").stage(str(uuid.uuid4()))
    sink.write(LEADER, "members", "csv", [bytes(999)])
    sink.write(LEADER, "campaigns", "csv", [bytes(10)])
    sink.commit()
    assert syncs.calls == 2


def test_small_run_is_flushed_once(tmp_path: Path, syncs: SyncCounter) -> None:
    sink = LocalDisk(tmp_path / "files").stage(str(uuid.uuid4()))
    sink.write(LEADER, "members", "csv", [bytes(999)])
    sink.commit()
    assert syncs.calls == 1


def test_error_of_a_background_flush_fails_the_commit(tmp_path: Path, syncs: SyncCounter) -> None:
    snapshot_id = str(uuid.uuid4())
    disk = LocalDisk(tmp_path / "files")
    sink = disk.stage(snapshot_id)
    syncs.failures = 1
    sink.write(LEADER, "members", "csv", [bytes(1000)])
    with pytest.raises(FileStoreError, match="durable"):
        sink.commit()
    assert not (tmp_path / "files" / "snapshots" / snapshot_id).exists()
    sink.discard()
    assert disk.ids("snapshots") == []


def test_error_of_a_background_flush_fails_later_writes(tmp_path: Path, syncs: SyncCounter) -> None:
    sink = LocalDisk(tmp_path / "files").stage(str(uuid.uuid4()))
    syncs.failures = 1

    def write_files() -> None:
        for _ in range(10_000):
            sink.write(str(uuid.uuid4()), "members", "csv", [bytes(1000)])

    with pytest.raises(FileStoreError, match="written"):
        write_files()
