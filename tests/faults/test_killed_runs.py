"""SIGKILL and failing system calls at any point of a run: served files stay undamaged, and the next run recovers."""

import os
import signal
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import verify_snapshot
from tests.configured import configured
from tests.faults.conftest import FAULT_AT_CALL, ForkServer, calls_of, check_kills, copy_folder, traced_fork_server
from tests.faults.fork_server import CHANGING_CALLS, publish_and_clean
from tests.parts.variants import one_of, some_of
from tests.parts.waiting import wait_until
from tests.small_platform import QUICK, Platform, leader_ids, now, open_context, platform_of, write_platform

SMALL = configured(snapshot={"formats": ("csv",)})
# A process that is killed leaves the same for recovery after each of several writes between two syncs.
LONG = 4
EXPECTED_CALLS = {
    "run": Counter(write=10, linkat=1, mkdir=2, syncfs=1, rename=1, fsync=2, pwrite64=10, fdatasync=6),
    "packed run": Counter(mkdir=2, syncfs=1, rename=1, fsync=2, pwrite64=20, fdatasync=6),
    "publish": Counter(unlink=10, rmdir=2, pwrite64=10, fdatasync=3),
}


def publish_then_change(folder: Path) -> Snapshot:
    """Publish a snapshot, change the platform, and return the snapshot."""
    with open_context(folder) as context:
        served = run_manually(context)
    changed = platform_of(mark="b")
    first = min(changed)
    changed[first] = platform_of()[first]
    write_platform(folder / "platform.json", changed)
    return served


def current(context: RunContext) -> Snapshot:
    found = context.state.read(lambda stores: stores.snapshots.current())
    assert found is not None
    return found


def check_files(context: RunContext, snapshot: Snapshot) -> None:
    verified = verify_snapshot(context.state, context.store, snapshot.snapshot_id)
    assert verified.damaged == ()
    assert verified.files == snapshot.report.files


def waiting(context: RunContext) -> list[Snapshot]:
    """Return the complete snapshots that wait for their publication time."""
    runs = context.state.read(lambda stores: stores.snapshots.recent())
    return [run for run in runs if run.state is SnapshotState.COMPLETE]


def check_recovery(folder: Path, served: Snapshot) -> None:
    """Check that served files are undamaged after a process has ended, and that the next run succeeds."""
    with open_context(folder) as context:
        found = current(context)
        reachable = context.state.read(lambda stores: stores.snapshots.served())
        assert found in reachable
        # Its files are deleted only after the publication of a newer snapshot.
        assert served.snapshot_id in {each.snapshot_id for each in reachable} or found.as_of > served.as_of
        for snapshot in reachable:
            check_files(context, snapshot)
        for complete in waiting(context):
            publish_and_clean(context)
            assert current(context).snapshot_id == complete.snapshot_id
            check_files(context, current(context))
        # Another builder takes over only after the lease of the killed one has expired.
        later = now() + timedelta(seconds=QUICK.lease_seconds + 1)
        context.state.write(lambda stores: stores.snapshots.lapse(later))
        done = run_manually(context)
        assert done.state is SnapshotState.PUBLISHED
        check_files(context, done)
        stored = {path.name for path in (folder / "files" / "snapshots").iterdir()}
        known = context.state.read(lambda stores: {s.snapshot_id for s in stores.snapshots.served()})
        assert stored == known, "the killed run left files"
        assert list((folder / "files" / "staging").iterdir()) == []


def publish_minimal(folder: Path, *, waiting: bool, pack_below: int = 0) -> Snapshot:
    """Publish a minimal snapshot and return it. Few files keep the number of system calls to test small.

    The next run writes, reuses and deletes files. With `waiting` that run is complete and waits for its publication
    time.
    """
    first, last = leader_ids(2)
    platform: Platform = {first: {"members": ["a"]}, last: {"members": ["b"]}}
    write_platform(folder / "platform.json", platform)
    with open_context(folder, settings=configured(SMALL, snapshot={"pack_below": pack_below})) as context:
        served = run_manually(context)
        platform[first]["members"] = ["changed"]
        write_platform(folder / "platform.json", platform)
        if waiting:
            assert run_day(context, now().date() + timedelta(days=2)) is not None
    return served


@pytest.mark.parametrize(
    ("what", "kills_per_call"),
    some_of([("packed run", 1), ("publish", 1)], [("packed run", LONG), ("publish", LONG), ("run", LONG)]),
)
def test_kill_before_any_system_call_keeps_served_files(
    what: str, kills_per_call: int, folder: Path, killing_server: tuple[ForkServer, Path]
) -> None:
    """A run with its publication, and the publication of a complete run with the clean-up after it.

    The process is killed before calls that change files.
    """
    pack_below = 65_536 if what == "packed run" else 0
    served = publish_minimal(folder, waiting=what == "publish", pack_below=pack_below)
    action, formats = what.removeprefix("packed "), list(SMALL.snapshot.formats)
    # The heartbeat is longer than the run, because renewing the lease would make further calls.
    check_kills(
        killing_server,
        partial(killing_server[0].start, action, formats=formats, heartbeat=600, pack_below=pack_below),
        folder,
        partial(check_recovery, served=served),
        expected_calls=EXPECTED_CALLS[what],
        kills_per_call=kills_per_call,
    )


def test_files_are_durable_before_the_run_is_complete(folder: Path, tmp_path: Path) -> None:
    """A run writes and syncs data, renames its folder, syncs both parent folders, and then commits its completion."""
    publish_then_change(folder)
    log = tmp_path / "trace"
    with traced_fork_server(log, ["-e", f"trace={','.join(CHANGING_CALLS)}"]) as fork_server:
        pid = fork_server.start("run", folder)
        assert fork_server.wait(pid) == 0, (folder / "child.log").read_text()
    # The mark of the publication is written later.
    calls = [(call, rest) for call, rest in calls_of(log, pid) if "/publications" not in rest]
    data = [position for position, (call, rest) in enumerate(calls) if "write" in call and "/staging/" in rest]
    (sync,) = (position for position, (call, _) in enumerate(calls) if call == "syncfs")
    (rename,) = (position for position, (call, _) in enumerate(calls) if call == "rename")
    names = [position for position, (call, rest) in enumerate(calls) if call == "fsync" and "/files/" in rest]
    commits = [position for position, (call, rest) in enumerate(calls) if call == "fdatasync" and "state.db" in rest]
    assert data
    assert max(data) < sync < rename < min(names)
    assert "/snapshots>" in calls[names[0]][1]
    assert "/staging>" in calls[names[1]][1]
    assert [position for position in commits if position > max(names)], "the database commits the completion after that"


FAULTS = [
    ("write", "ENOSPC", 30, "disk_short"),
    ("syncfs", "EIO", 1, "file_store_fault"),
    ("rename", "EIO", 1, "file_store_fault"),
    ("fsync", "EIO", 1, "file_store_fault"),
    ("fsync", "EIO", 2, "file_store_fault"),
]


@pytest.mark.release
def test_disk_error_fails_the_run_and_keeps_served_files(folder: Path, tmp_path: Path) -> None:
    served = publish_then_change(folder)
    log = tmp_path / "trace"
    kinds = {(call, error) for call, error, _, _ in FAULTS}
    options = ["-e", f"trace={','.join(sorted({call for call, _ in kinds}))}"]
    options += [
        word for call, error in sorted(kinds) for word in ("-e", f"inject={call}:error={error}:when={FAULT_AT_CALL}")
    ]
    with traced_fork_server(log, options) as fork_server:
        for call, error, number, code in FAULTS:
            copy = copy_folder(folder, tmp_path / f"{call}-{number}")
            pid = fork_server.start("run", copy, pack_below=0, initial_calls={call: FAULT_AT_CALL - number})
            case = f"{call} {error} {number}"
            assert fork_server.wait(pid) == 1, case
            with open_context(copy) as context:
                failed = context.state.read(lambda stores: stores.snapshots.recent(1))[0]
                assert failed.state is SnapshotState.FAILED, case
                assert failed.report.code == code, (case, failed.failure)
                assert current(context).snapshot_id == served.snapshot_id
                check_files(context, served)
                stored = {path.name for path in (copy / "files" / "snapshots").iterdir()}
                assert stored == {served.snapshot_id}, case
                assert list((copy / "files" / "staging").iterdir()) == [], case


@pytest.mark.release
@pytest.mark.parametrize("stop_signal", one_of(signal.SIGTERM, signal.SIGINT))
def test_run_stopped_by_a_signal_leaves_no_files(
    folder: Path, stop_signal: signal.Signals, fork_server: ForkServer
) -> None:
    served = publish_then_change(folder)
    pid = fork_server.start("run", folder, full=True, pause=0.2)
    staging = folder / "files" / "staging"
    wait_until(lambda: any(staging.rglob("*.pack")), what="the first file")
    os.kill(pid, stop_signal)
    assert fork_server.wait(pid) == 1
    assert list(staging.iterdir()) == []
    with open_context(folder) as context:
        stopped = context.state.read(lambda stores: stores.snapshots.recent(1))[0]
        assert (stopped.state, stopped.report.code) == (SnapshotState.FAILED, "run_stopped")
    check_recovery(folder, served)
