"""The sink that a run writes through: it counts, it stops, and it travels as what it wraps."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daybreak.domain.errors import RunFenced
from daybreak.filestore.local_disk import LocalDisk, LocalSink
from daybreak.snapshots.progress import Progress
from daybreak.snapshots.watched_sink import WatchedSink

LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"


def progress() -> Progress:
    return Progress(("members",), {}, lambda: datetime.now(UTC), time.monotonic)


def test_files_and_bytes_are_counted(tmp_path: Path) -> None:
    counted = progress()
    sink = WatchedSink(LocalDisk(tmp_path).stage(str(uuid.uuid4())), counted, lambda: None)
    sink.write(LEADER, "members", "csv", [b"one", b"two"])
    sink.write(LEADER, "members", "json", [b"four"])
    told = counted.as_json()
    assert (told["files"], told["bytes"], told["carried"]) == (2, 10, 0)


def test_a_file_is_given_up_between_two_pieces(tmp_path: Path) -> None:
    lost = False

    def check() -> None:
        if lost:
            raise RunFenced("Somebody else has it.")

    def pieces() -> Iterator[bytes]:
        nonlocal lost
        yield b"first"
        lost = True
        yield b"second"

    sink = WatchedSink(LocalDisk(tmp_path).stage(str(uuid.uuid4())), progress(), check)
    with pytest.raises(RunFenced):
        sink.write(LEADER, "members", "csv", pieces())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_tasks_elsewhere_take_the_sink_itself_along_and_are_counted(tmp_path: Path) -> None:
    counted = progress()
    sink = WatchedSink(LocalDisk(tmp_path).stage(str(uuid.uuid4())), counted, lambda: None)
    assert isinstance(pickle.loads(pickle.dumps(sink.for_tasks())), LocalSink)
    sink.count(10)
    assert counted.as_json()["bytes"] == 10
