"""The disk begins early with what a run writes, and what it then says is not lost."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

import pytest

from daybreak.domain.errors import FileStoreError
from daybreak.filestore import durable
from daybreak.filestore.local_disk import LocalDisk

LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"


class Syncs:
    """Counts the syncs of file systems; as many of them fail as `failing` says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = durable._syncfs()
        assert real is not None
        self._real = real
        self.made = 0
        self.failing = 0
        monkeypatch.setattr(durable, "_syncfs", lambda: self._sync)
        monkeypatch.setattr(durable, "_EARLY_BYTES", 1000)

    def _sync(self, handle: int) -> None:
        self.made += 1
        if self.failing:
            self.failing -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._real(handle)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


def test_the_disk_begins_before_the_end(tmp_path: Path, syncs: Syncs) -> None:
    sink = LocalDisk(tmp_path / "files").stage(str(uuid.uuid4()))
    sink.write(LEADER, "members", "csv", [bytes(999)])
    sink.write(LEADER, "campaigns", "csv", [bytes(10)])
    sink.seal()
    assert syncs.made == 2


def test_little_is_synced_at_the_end_alone(tmp_path: Path, syncs: Syncs) -> None:
    sink = LocalDisk(tmp_path / "files").stage(str(uuid.uuid4()))
    sink.write(LEADER, "members", "csv", [bytes(999)])
    sink.seal()
    assert syncs.made == 1


def test_an_error_that_is_told_early_fails_the_run(tmp_path: Path, syncs: Syncs) -> None:
    snapshot_id = str(uuid.uuid4())
    disk = LocalDisk(tmp_path / "files")
    sink = disk.stage(snapshot_id)
    syncs.failing = 1
    sink.write(LEADER, "members", "csv", [bytes(1000)])
    with pytest.raises(FileStoreError, match="durable"):
        sink.seal()
    assert not (tmp_path / "files" / "snapshots" / snapshot_id).exists()
    sink.discard()
    assert disk.snapshot_ids() == []


def test_an_error_that_is_told_early_ends_the_writing(tmp_path: Path, syncs: Syncs) -> None:
    sink = LocalDisk(tmp_path / "files").stage(str(uuid.uuid4()))
    syncs.failing = 1

    def go_on() -> None:
        for _ in range(10_000):
            sink.write(str(uuid.uuid4()), "members", "csv", [bytes(1000)])

    with pytest.raises(FileStoreError, match="written"):
        go_on()
