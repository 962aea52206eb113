"""Power cuts: acknowledged writes are on the disk, published files are undamaged, and a restarted service recovers.

The service uses two file systems, one for its state and one for its files, so that a sync of one does not make the
other durable. At each crash point the workload stops, and the test copies the bytes that have reached both disks. A
power cut at that moment would leave these bytes. The test then mounts each pair of copies, as after a restart.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from daybreak.domain.audit import AuditQuery
from daybreak.domain.snapshot import SnapshotState
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.verify import verify_snapshot
from tests.faults.conftest import ForkServer
from tests.faults.small_disks import copy_image, format_image, memory_disk, mounted_image
from tests.parts.variants import one_of
from tests.parts.waiting import wait_until
from tests.small_platform import QUICK, create_state, now, open_context, platform_of, write_platform

# A run requires free space before it starts.
STATE_BYTES = 32 << 20
FILES_BYTES = 160 << 20
MEMORY_BYTES = 1 << 30
DAY = [
    "exporting members",
    "files committed",
    "manual run published",
    "exporting members",
    "files committed",
    "scheduled run complete",
    "scheduled run published",
    "cleaned",
]


@dataclass(frozen=True)
class CrashState:
    """Images of both disks at one crash point, and the operations acknowledged by then."""

    crash_point: str
    state: Path
    files: Path
    events: frozenset[str]
    published: tuple[str, ...]


@contextmanager
def mounted_disks(folder: Path, state: Path, files: Path) -> Iterator[None]:
    with mounted_image(state, folder):
        (folder / "files").mkdir(exist_ok=True)
        with mounted_image(files, folder / "files"):
            yield


def read_acknowledgments(log_file: Path) -> list[tuple[str, str]]:
    """Return the acknowledged operations and the crash points as (kind, value), in order."""
    return [tuple(json.loads(line)) for line in log_file.read_text().splitlines()]


def crash_points(acknowledgments: list[tuple[str, str]]) -> list[str]:
    return [value for kind, value in acknowledgments if kind == "crash_point"]


def is_stopped_at(pid: int, log_file: Path, number: int) -> bool:
    """Return whether a process reached a crash point and all its threads are stopped, none within a system call.

    Raises AssertionError for a process that has ended.
    """
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    states = {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}
    assert states != {"Z"}, "the workload has failed"
    return states == {"T"} and len(crash_points(read_acknowledgments(log_file))) > number


def record_crash_states(folder: Path, fork_server: ForkServer, days: int) -> list[CrashState]:
    """Run the workload, and copy both disks at each crash point."""
    expected = DAY * days
    state, files, mount, log_file = (folder / name for name in ("state.img", "files.img", "mount", "acknowledgments"))
    format_image(state, STATE_BYTES)
    format_image(files, FILES_BYTES)
    found: list[CrashState] = []
    with mounted_disks(mount, state, files):
        create_state(mount)
        write_platform(mount / "platform.json", platform_of())
        os.sync()
        pid = fork_server.start("workload", mount, log_file=str(log_file), days=days)
        try:
            for number, name in enumerate(expected):
                wait_until(lambda number=number: is_stopped_at(pid, log_file, number), 180, what=name, every=0.005)  # type: ignore[misc]
                acknowledgments = read_acknowledgments(log_file)
                assert crash_points(acknowledgments) == expected[: number + 1]
                crash_state = CrashState(
                    name,
                    folder / f"{number}-state.img",
                    folder / f"{number}-files.img",
                    frozenset(value for kind, value in acknowledgments if kind == "event"),
                    tuple(value for kind, value in acknowledgments if kind == "published"),
                )
                copy_image(state, crash_state.state)
                copy_image(files, crash_state.files)
                found.append(crash_state)
                os.kill(pid, signal.SIGCONT)
        except BaseException as fault:
            # The process may be stopped at a crash point, where it would wait forever.
            os.kill(pid, signal.SIGKILL)
            fork_server.wait(pid)
            fault.add_note((mount / "child.log").read_text())
            raise
        assert fork_server.wait(pid) == 0, (mount / "child.log").read_text()
    return found


def check_recovery(folder: Path, crash_state: CrashState) -> None:
    """Check what a restarted machine finds after a power cut, and that its next run succeeds."""
    write_platform(folder / "platform.json", platform_of(mark="after"))
    with open_context(folder) as context:
        stored = {
            event.request_id
            for event in context.state.read(lambda stores: stores.audit.read(AuditQuery(limit=1_000_000)))
        }
        assert crash_state.events <= stored, f"{len(crash_state.events - stored)} acknowledged events are lost"
        current = context.state.read(lambda stores: stores.snapshots.current())
        if crash_state.published:
            assert current is not None
            # No publication is in progress at a crash point, so the last acknowledged one is current.
            assert current.snapshot_id == crash_state.published[-1]
        served = context.state.read(lambda stores: stores.snapshots.served())
        complete = [
            run for run in context.state.read(lambda stores: stores.snapshots.recent()) if run.state == "complete"
        ]
        for snapshot in [*served, *complete]:
            verified = verify_snapshot(context.state, context.store, snapshot.snapshot_id)
            assert (verified.files, verified.damaged) == (50, ())
        later = now() + timedelta(seconds=QUICK.lease_seconds + 1)
        context.state.write(lambda stores: stores.snapshots.lapse(later))
        done = run_manually(context)
        assert done.state is SnapshotState.PUBLISHED
        assert verify_snapshot(context.state, context.store, done.snapshot_id).damaged == ()
        assert list((folder / "files" / "staging").iterdir()) == []


@pytest.mark.parametrize("days", one_of(1, 2))
def test_power_cut_loses_no_acknowledged_operation(days: int, tmp_path: Path, fork_server: ForkServer) -> None:
    # The images are in memory. They do not have to survive a real power cut.
    memory = tmp_path / "memory"
    with memory_disk(memory, MEMORY_BYTES):
        crash_states = record_crash_states(memory, fork_server, days)
        # Events were acknowledged between cuts.
        assert len({crash_state.events for crash_state in crash_states}) > 1
        assert len(crash_states[-1].published) == 2 * days
        for number, crash_state in enumerate(crash_states):
            mount = memory / f"after {number}"
            with mounted_disks(mount, crash_state.state, crash_state.files):
                try:
                    check_recovery(mount, crash_state)
                except Exception as fault:
                    fault.add_note(f"The power was cut at crash point {number}: {crash_state.crash_point}.")
                    raise
