"""kill -9 and failing system calls, anywhere in a run: what is served is whole, and the next run puts things right."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.run import run_by_hand, run_day
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import verify_snapshot
from tests.configured import configured
from tests.faults.conftest import ForkServer, calls_of, traced_fork_server
from tests.faults.fork_server import CHANGING_CALLS, publish_and_clean
from tests.parts.waiting import wait_until
from tests.small_platform import QUICK, Platform, context_in, leader_ids, now, platform_of, write_platform

# A run makes far fewer calls of each kind; the fault strikes a process at this count of its own.
STRIKES_AT = 150
SMALL = configured(snapshot={"formats": ("csv",)})
DATABASE_CALLS = frozenset({"pwrite64", "fdatasync", "ftruncate"})
MADE = {
    "run": Counter(write=10, linkat=1, mkdir=2, syncfs=1, rename=1, fsync=2, pwrite64=10, fdatasync=6),
    "publish": Counter(unlink=10, rmdir=2, pwrite64=10, fdatasync=3),
}


def prepared(folder: Path) -> Snapshot:
    """A folder in which one snapshot is served and the platform has changed since."""
    context = context_in(folder)
    served = run_by_hand(context)
    context.state.close()
    changed = platform_of(mark="b")
    first = min(changed)
    changed[first] = platform_of()[first]
    write_platform(folder / "platform.json", changed)
    return served


def copy_of(folder: Path, target: Path) -> Path:
    """A folder of a test's own, hard links as they are."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("child.log", "trace"))
    return target


def current(context: RunContext) -> Snapshot:
    found = context.state.read(lambda stores: stores.snapshots.current())
    assert found is not None
    return found


def is_whole(context: RunContext, snapshot: Snapshot) -> None:
    verified = verify_snapshot(context.state, context.store, snapshot.snapshot_id)
    assert verified.damaged == ()
    assert verified.files == snapshot.report["files"]


def waiting(context: RunContext) -> list[Snapshot]:
    """Complete snapshots whose hour has not come."""
    runs = context.state.read(lambda stores: stores.snapshots.recent())
    return [run for run in runs if run.state is SnapshotState.COMPLETE]


def puts_things_right(folder: Path, served: Snapshot, *, restart: bool = True) -> None:
    """What readers find after a process that ended anywhere, and what a restart then does."""
    context = context_in(folder)
    try:
        found = current(context)
        reachable = context.state.read(lambda stores: stores.snapshots.served())
        assert found in reachable
        # Its files go when something newer is published, and not before.
        assert served.snapshot_id in {each.snapshot_id for each in reachable} or found.as_of > served.as_of
        for snapshot in reachable:
            is_whole(context, snapshot)
        if not restart:
            return
        for made in waiting(context):
            publish_and_clean(context)
            assert current(context).snapshot_id == made.snapshot_id
            is_whole(context, current(context))
        # The dead builder's lease is over by the time somebody else takes the work up.
        later = now() + timedelta(seconds=QUICK.lease_seconds + 1)
        context.state.write(lambda stores: stores.snapshots.lapse(later))
        done = run_by_hand(context)
        assert done.state is SnapshotState.PUBLISHED
        is_whole(context, done)
        lying = {path.name for path in (folder / "files" / "snapshots").iterdir()}
        known = context.state.read(lambda stores: {s.snapshot_id for s in stores.snapshots.served()})
        assert lying == known, "nothing is left of the run that was killed"
        assert list((folder / "files" / "staging").iterdir()) == []
    finally:
        context.state.close()


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ForkServer, Path]]:
    """Processes that are killed at their call number STRIKES_AT of any kind, and the trace of their calls."""
    log = tmp_path_factory.mktemp("trace") / "trace"
    options = ["-e", f"trace={','.join(CHANGING_CALLS)}"]
    options += [word for call in CHANGING_CALLS for word in ("-e", f"inject={call}:signal=KILL:when={STRIKES_AT}")]
    with traced_fork_server(log, options) as found:
        yield found, log


def smallest(folder: Path, *, waiting: bool) -> Snapshot:
    """A folder in which as little as possible is served and the next run writes, carries over and removes: each of its
    calls has a test. `waiting`: that run has been made, for tomorrow, and waits for its hour.
    """
    first, last = leader_ids(2)
    platform: Platform = {first: {"members": ["a"]}, last: {"members": ["b"]}}
    write_platform(folder / "platform.json", platform)
    context = context_in(folder, settings=SMALL)
    try:
        served = run_by_hand(context)
        platform[first]["members"] = ["changed"]
        write_platform(folder / "platform.json", platform)
        if waiting:
            assert run_day(context, now().date() + timedelta(days=2)) is not None
    finally:
        context.state.close()
    return served


@pytest.mark.parametrize("what", ["run", "publish"])
def test_a_process_that_is_killed_at_any_call_leaves_what_is_served_whole(
    what: str, folder: Path, tmp_path: Path, struck: tuple[ForkServer, Path]
) -> None:
    """A run to its publication, and the publication of one that waited with the clean-up after it: killed before each
    call that changes anything on the disk.
    """
    served = smallest(folder, waiting=what == "publish")
    fork_server, log = struck
    # No renewal of the lease comes in between: it would make calls of its own.
    order = {"formats": list(SMALL.snapshot.formats), "heartbeat": 600}
    whole = copy_of(folder, tmp_path / "whole")
    pid = fork_server.start(what, whole, **order)
    assert fork_server.wait(pid) == 0, (whole / "child.log").read_text()
    counts = Counter(call for call, _ in calls_of(log, pid))
    assert max(counts.values()) <= STRIKES_AT
    assert counts >= MADE[what], "the calls that this test is about"
    killed = 0
    for call, number in [(name, number) for name, count in counts.items() for number in range(1, count + 1)]:
        place = copy_of(folder, tmp_path / f"{call}-{number}")
        pid = fork_server.start(what, place, count_from={call: STRIKES_AT - number}, **order)
        status = fork_server.wait(pid)
        # Ids are random, so a database page more or less is written: a process may get through its last calls.
        assert status in {-signal.SIGKILL, 0}, (call, number, (place / "child.log").read_text())
        killed += status == -signal.SIGKILL
        try:
            puts_things_right(place, served)
        except Exception as fault:
            fault.add_note(f"The process was killed before {call} number {number}.")
            raise
        shutil.rmtree(place)
    assert killed >= counts.total() - 5


def test_files_are_durable_before_anybody_is_told_of_them(folder: Path, tmp_path: Path) -> None:
    """The order of one run's calls: data, sync, rename, sync of the names, and only then the manifest's completion."""
    prepared(folder)
    log = tmp_path / "trace"
    with traced_fork_server(log, ["-e", f"trace={','.join(CHANGING_CALLS)}"]) as fork_server:
        pid = fork_server.start("run", folder)
        assert fork_server.wait(pid) == 0, (folder / "child.log").read_text()
    made = calls_of(log, pid)
    data = [place for place, (call, rest) in enumerate(made) if call == "write" and "/staging/" in rest]
    (sync,) = (place for place, (call, _) in enumerate(made) if call == "syncfs")
    (rename,) = (place for place, (call, _) in enumerate(made) if call == "rename")
    names = [place for place, (call, rest) in enumerate(made) if call == "fsync" and "/files/" in rest]
    promised = [place for place, (call, rest) in enumerate(made) if call == "fdatasync" and "state.db" in rest]
    assert data
    assert max(data) < sync < rename < min(names)
    assert "/snapshots>" in made[names[0]][1]
    assert "/staging>" in made[names[1]][1]
    assert [place for place in promised if place > max(names)], "complete and published are told after that"


FAULTS = [
    ("write", "ENOSPC", 30, "disk_short"),
    ("syncfs", "EIO", 1, "file_store_fault"),
    ("rename", "EIO", 1, "file_store_fault"),
    ("fsync", "EIO", 1, "file_store_fault"),
    ("fsync", "EIO", 2, "file_store_fault"),
]


def test_a_disk_that_fails_fails_the_run_cleanly(folder: Path, tmp_path: Path) -> None:
    served = prepared(folder)
    log = tmp_path / "trace"
    kinds = {(call, error) for call, error, _, _ in FAULTS}
    options = ["-e", f"trace={','.join(sorted({call for call, _ in kinds}))}"]
    options += [
        word for call, error in sorted(kinds) for word in ("-e", f"inject={call}:error={error}:when={STRIKES_AT}")
    ]
    with traced_fork_server(log, options) as fork_server:
        for call, error, number, code in FAULTS:
            place = copy_of(folder, tmp_path / f"{call}-{number}")
            pid = fork_server.start("run", place, count_from={call: STRIKES_AT - number})
            said = f"{call} {error} {number}"
            assert fork_server.wait(pid) == 1, said
            context = context_in(place)
            try:
                failed = context.state.read(lambda stores: stores.snapshots.recent(1))[0]
                assert failed.state is SnapshotState.FAILED, said
                assert failed.report["code"] == code, (said, failed.failure)
                assert current(context).snapshot_id == served.snapshot_id
                is_whole(context, served)
                lying = {path.name for path in (place / "files" / "snapshots").iterdir()}
                assert lying == {served.snapshot_id}, said
                assert list((place / "files" / "staging").iterdir()) == [], said
            finally:
                context.state.close()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_leaves_nothing(
    folder: Path, sign: signal.Signals, fork_server: ForkServer
) -> None:
    served = prepared(folder)
    pid = fork_server.start("run", folder, full=True, pause=0.2)
    staging = folder / "files" / "staging"
    wait_until(lambda: any(staging.rglob("*.gz")), what="the first file")
    os.kill(pid, sign)
    assert fork_server.wait(pid) == 1
    assert list(staging.iterdir()) == []
    context = context_in(folder)
    try:
        stopped = context.state.read(lambda stores: stores.snapshots.recent(1))[0]
        assert (stopped.state, stopped.report["code"]) == (SnapshotState.FAILED, "run_stopped")
    finally:
        context.state.close()
    puts_things_right(folder, served)
