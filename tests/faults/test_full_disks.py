"""A disk that is really full: the run fails cleanly, yesterday's files are served, and people still get in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.errors import FileStoreError, StoreFull, Unavailable
from daybreak.domain.snapshot import SnapshotState
from daybreak.filestore.local_disk import LocalDisk
from daybreak.ports.state import Stores
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.run import run_by_hand, run_day
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import last_due, publication_of
from daybreak.snapshots.verify import verify_snapshot
from daybreak.state.database import open_state
from tests.faults.small_disks import memory_disk
from tests.small_platform import QUICK, context_in, now, platform_of, write_platform

DISK_BYTES = 1 << 20
ONE_TRY = replace(QUICK, attempts=1)


class Unasked(LocalDisk):
    """A disk that is not asked for its room before a run: somebody else may fill it during one just as well."""

    def free_bytes(self) -> int | None:
        return None


def event(number: int) -> AuditEvent:
    return AuditEvent(now(), "login", "ok", "someone@example.org", request_id=str(number))


def write(context: RunContext, number: int) -> None:
    context.state.write(lambda stores: stores.audit.append(event(number)))


def write_until_refused(context: RunContext) -> tuple[int, Unavailable]:
    """How many events were written, and what was said at the next one."""
    for number in range(10_000):
        try:
            write(context, number)
        except Unavailable as error:
            return number, error
    raise AssertionError("the disk never was full")


@contextmanager
def fills(folder: Path) -> Iterator[None]:
    """Somebody else takes all the room on a disk, and gives it back."""
    hog = folder / "hog"
    with hog.open("wb", buffering=0) as file:
        for size_bytes in (4096, 1):
            try:
                while file.write(b"x" * size_bytes):
                    pass
            except OSError:
                continue
    try:
        yield
    finally:
        hog.unlink()


def test_files_that_do_not_fit_fail_the_run_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    with memory_disk(tmp_path / "small", DISK_BYTES):
        context = context_in(folder, store=Unasked(tmp_path / "small"), timings=ONE_TRY)
        try:
            due = last_due(now(), context.settings.snapshot.publish_at)
            four = publication_of(due, context.settings.snapshot.publish_at)
            yesterday = run_by_hand(replace(context, clock=lambda: four - timedelta(hours=1)))
            rows = 200
            write_platform(
                folder / "platform.json",
                # Nothing that a compressor could make small.
                {leader: {"members": [os.urandom(500).hex() for _ in range(rows)]} for leader in platform_of(6)},
            )
            with pytest.raises(FileStoreError) as caught:
                run_day(context, due)
            assert caught.value.code == "disk_short"
            failed = context.state.read(lambda stores: stores.snapshots.recent(1))[0]
            assert (failed.state, failed.report["code"]) == (SnapshotState.FAILED, "disk_short")
            assert failed.failure is not None
            assert "Free disk space" in failed.failure
            assert list((tmp_path / "small" / "staging").iterdir()) == []
            assert [path.name for path in (tmp_path / "small" / "snapshots").iterdir()] == [yesterday.snapshot_id]
            assert verify_snapshot(context.state, context.store, yesterday.snapshot_id).damaged == ()
            # Whoever asks is told, and whoever signs in gets in.
            at = four + timedelta(hours=1)
            fresh = context.state.read(
                lambda stores: freshness(stores.snapshots, at, context.settings.snapshot.publish_at)
            )
            assert fresh.snapshot == yesterday
            assert (fresh.late, fresh.reason) == (True, "Today's files failed to build. Another attempt follows.")
            write(context, 1)
            # Somebody makes room: the next run is like any other.
            write_platform(folder / "platform.json", platform_of(mark="after"))
            assert run_by_hand(context).state is SnapshotState.PUBLISHED
        finally:
            context.state.close()


def test_a_state_database_without_room_loses_nothing_and_comes_back_by_itself(
    folder: Path, tmp_path: Path, empty_state: Path
) -> None:
    with memory_disk(tmp_path / "small", DISK_BYTES):
        small = tmp_path / "small"
        shutil.copy(empty_state, small / "state.db")
        write_platform(small / "platform.json", platform_of())
        context = context_in(small, store=LocalDisk(tmp_path / "files"), timings=ONE_TRY)
        try:
            served = run_by_hand(context)

            def events(stores: Stores) -> set[str | None]:
                return {each.request_id for each in stores.audit.read(AuditQuery(action="login", limit=1_000_000))}

            with fills(small):
                # What the log still has room for is written; after that everybody is told, and nobody hangs.
                written, error = write_until_refused(context)
                assert error.code == "state_unavailable"
                assert "disk of the state database is full" in error.message
                assert context.state.read(lambda stores: stores.snapshots.current()) == served, (
                    "what only reads goes on"
                )
                assert context.state.read(events) == {str(number) for number in range(written)}
                with pytest.raises(Unavailable):
                    run_by_hand(context)
            write(context, written)
            assert context.state.read(events) == {str(number) for number in range(written + 1)}
            assert verify_snapshot(context.state, context.store, served.snapshot_id).damaged == ()
            context.state.write(
                lambda stores: stores.snapshots.lapse(now() + timedelta(seconds=QUICK.lease_seconds + 1))
            )
            assert run_by_hand(context).state is SnapshotState.PUBLISHED
        finally:
            context.state.close()


def test_who_looks_at_a_full_disk_is_told_so_and_leaves_nothing_on_it(empty_state: Path, tmp_path: Path) -> None:
    with memory_disk(tmp_path / "small", DISK_BYTES):
        small = tmp_path / "small"
        shutil.copy(empty_state, small / "state.db")
        store = LocalDisk(small / "files")
        with fills(small), closing(open_state(f"sqlite:///{small}/state.db")) as state:
            with pytest.raises(Unavailable, match="The disk of the state database is full"):
                state.read(lambda stores: stores.snapshots.current())
            with pytest.raises(StoreFull):
                store.probe()
            assert list((small / "files/staging").iterdir()) == []
