"""Full disks: a run fails cleanly, the service keeps serving yesterday's files, and logins are still recorded."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.errors import DaybreakError, FileStoreError, StoreFull, Unavailable
from daybreak.domain.snapshot import SnapshotState
from daybreak.filestore.file_store import FreeSpace
from daybreak.filestore.local_disk import LocalDisk
from daybreak.snapshots.disk_space import RESERVE_BYTES
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import last_due, publication_of
from daybreak.snapshots.verify import verify_snapshot
from daybreak.state.database import open_state
from daybreak.state.stores import Stores
from tests.faults.small_disks import memory_disk
from tests.small_platform import QUICK, create_state, now, open_context, platform_of, write_platform

DISK_BYTES = 1 << 20
SINGLE_ATTEMPT = replace(QUICK, attempts=1)


class UnknownFreeSpace(LocalDisk):
    """Disk that does not report its free space, so that a run starts although the disk is too small."""

    def free_space(self) -> FreeSpace | None:
        return None


def event(number: int) -> AuditEvent:
    return AuditEvent(now(), "login", "ok", "someone@example.org", request_id=str(number))


def append_event(context: RunContext, number: int) -> None:
    context.state.write(lambda stores: stores.audit.append(event(number)))


def write_until_refused(context: RunContext) -> tuple[int, Unavailable]:
    """Append events until one is refused. Return the number of stored events and the error."""
    for number in range(10_000):
        try:
            append_event(context, number)
        except Unavailable as error:
            return number, error
    raise AssertionError("the disk did not become full")


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill a disk with another file, and delete that file at the end of the block."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size_bytes in (4096, 1):
            try:
                while file.write(b"x" * size_bytes):
                    pass
            except OSError:
                continue
    try:
        yield
    finally:
        filler.unlink()


def test_run_that_fills_the_disk_fails_and_keeps_served_files(folder: Path, tmp_path: Path) -> None:
    with (
        memory_disk(tmp_path / "small", DISK_BYTES),
        open_context(folder, store=UnknownFreeSpace(tmp_path / "small"), timings=SINGLE_ATTEMPT) as context,
    ):
        due = last_due(now(), context.settings.snapshot.publish_at)
        publication = publication_of(due, context.settings.snapshot.publish_at)
        yesterday = run_manually(replace(context, clock=lambda: publication - timedelta(hours=1)))
        rows = 200
        write_platform(
            folder / "platform.json",
            # Random text, so that the compressed files are large too.
            {leader: {"members": [os.urandom(500).hex() for _ in range(rows)]} for leader in platform_of(6)},
        )
        with pytest.raises(FileStoreError) as caught:
            run_day(context, due)
        assert caught.value.code == "disk_short"
        failed = context.state.read(lambda stores: stores.snapshots.recent(1))[0]
        assert (failed.state, failed.report.code) == (SnapshotState.FAILED, "disk_short")
        assert failed.failure is not None
        assert "Free disk space" in failed.failure
        assert list((tmp_path / "small" / "staging").iterdir()) == []
        assert [path.name for path in (tmp_path / "small" / "snapshots").iterdir()] == [yesterday.snapshot_id]
        assert verify_snapshot(context.state, context.store, yesterday.snapshot_id).damaged == ()
        # The service reports why the files are late, and the login event is stored.
        at = publication + timedelta(hours=1)
        fresh = context.state.read(lambda stores: freshness(stores.snapshots, at, context.settings.snapshot.publish_at))
        assert fresh.snapshot == yesterday
        assert (fresh.late, fresh.reason) == (True, "Today's files failed to build. Another attempt follows.")
        append_event(context, 1)
        # A smaller platform fits again.
        write_platform(folder / "platform.json", platform_of(mark="after"))
        assert run_manually(context).state is SnapshotState.PUBLISHED


def use_inodes(folder: Path, *, keep: int) -> None:
    """Create empty files until only `keep` inodes are free."""
    free = LocalDisk(folder).free_space()
    assert free is not None
    assert free.files is not None
    for number in range(free.files - keep):
        (folder / f"other-{number}").touch()


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (LocalDisk, r"The disk of files\.url has 1 free inode, and a run needs at least"),
        (UnknownFreeSpace, r"No space left on device\. Free disk space or inodes \(`df -i`\)"),
    ],
)
def test_disk_without_free_inodes_fails_the_run(
    folder: Path, tmp_path: Path, store: type[LocalDisk], reason: str
) -> None:
    with (
        memory_disk(tmp_path / "small", 64 * DISK_BYTES + RESERVE_BYTES, inodes=150),
        open_context(folder, store=store(tmp_path / "small"), timings=SINGLE_ATTEMPT) as context,
    ):
        served = run_manually(context)
        use_inodes(tmp_path / "small", keep=1)
        write_platform(folder / "platform.json", platform_of(mark="after"))
        with pytest.raises(DaybreakError, match=reason) as caught:
            run_manually(context)
        assert caught.value.code == "disk_short"
        assert list((tmp_path / "small" / "staging").iterdir()) == []
        assert verify_snapshot(context.state, context.store, served.snapshot_id).damaged == ()


def test_full_state_disk_loses_no_rows_and_recovers(folder: Path, tmp_path: Path) -> None:
    with memory_disk(tmp_path / "small", DISK_BYTES):
        small = tmp_path / "small"
        create_state(small)
        write_platform(small / "platform.json", platform_of())
        with open_context(small, store=LocalDisk(tmp_path / "files"), timings=SINGLE_ATTEMPT) as context:
            served = run_manually(context)

            def events(stores: Stores) -> set[str | None]:
                return {each.request_id for each in stores.audit.read(AuditQuery(action="login", limit=1_000_000))}

            with filled(small):
                # Writes succeed while the write-ahead log has free space. After that each one fails without delay.
                written, error = write_until_refused(context)
                assert error.code == "state_unavailable"
                assert "disk of the state database is full" in error.message
                assert context.state.read(lambda stores: stores.snapshots.current()) == served, "reads still work"
                assert context.state.read(events) == {str(number) for number in range(written)}
                with pytest.raises(Unavailable):
                    run_manually(context)
            append_event(context, written)
            assert context.state.read(events) == {str(number) for number in range(written + 1)}
            assert verify_snapshot(context.state, context.store, served.snapshot_id).damaged == ()
            context.state.write(
                lambda stores: stores.snapshots.lapse(now() + timedelta(seconds=QUICK.lease_seconds + 1))
            )
            assert run_manually(context).state is SnapshotState.PUBLISHED


def test_full_disk_is_reported_and_the_probe_leaves_no_file(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "small", DISK_BYTES):
        small = tmp_path / "small"
        create_state(small)
        store = LocalDisk(small / "files")
        with filled(small), closing(open_state(f"sqlite:///{small}/state.db")) as state:
            with pytest.raises(Unavailable, match="The disk of the state database is full"):
                state.read(lambda stores: stores.snapshots.current())
            with pytest.raises(StoreFull):
                store.probe()
            assert list((small / "files/staging").iterdir()) == []
