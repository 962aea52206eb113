"""The power goes: what anybody was told of is on the disk, what was published is whole, and a restart goes on.

The service lives on two file systems, one for its state and one for its files, so that neither is made durable by the
other's syncs. At each station of its life it stops, and the bytes that have reached both disks by then are kept: that
is what a power cut leaves. Each pair is mounted again later, as a machine would that starts anew.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from daybreak.domain.audit import AuditQuery
from daybreak.domain.snapshot import SnapshotState
from daybreak.snapshots.run import run_by_hand
from daybreak.snapshots.verify import verify_snapshot
from tests.faults.conftest import ForkServer
from tests.faults.small_disks import format_image, memory_disk, mounted_image, what_a_power_cut_leaves
from tests.parts.waiting import wait_until
from tests.small_platform import QUICK, context_in, now, platform_of, write_platform

# A run wants some room to spare before it starts.
STATE_BYTES = 32 << 20
FILES_BYTES = 160 << 20
MEMORY_BYTES = 1 << 30
STATIONS = 2 * ["halfway", "sealed", "published by hand", "halfway", "sealed", "complete", "published by the schedule"]
STATIONS.insert(7, "cleaned")
STATIONS.append("cleaned")


@dataclass(frozen=True)
class Cut:
    """What the disks held at one moment, and everything that had been promised by then."""

    station: str
    state: Path
    files: Path
    events: frozenset[str]
    published: tuple[str, ...]


@contextmanager
def disks(folder: Path, state: Path, files: Path) -> Iterator[None]:
    with mounted_image(state, folder):
        (folder / "files").mkdir(exist_ok=True)
        with mounted_image(files, folder / "files"):
            yield


def promised(told: Path) -> list[tuple[str, str]]:
    """Everything that was promised so far, as (kind, what), and the stations in between."""
    return [tuple(json.loads(line)) for line in told.read_text().splitlines()]


def stations(promises: list[tuple[str, str]]) -> list[str]:
    return [what for kind, what in promises if kind == "station"]


def stopped_at(pid: int, told: Path, number: int) -> bool:
    """Whether a process has come to a station and no thread of it runs: none is in the middle of a call either."""
    if len(stations(promised(told))) <= number:
        return False
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)


def cuts_of_a_life(folder: Path, empty_state: Path, fork_server: ForkServer) -> list[Cut]:
    """Lets a service live and keeps what its disks hold at each station."""
    state, files, place, told = (folder / name for name in ("state.img", "files.img", "place", "told"))
    format_image(state, STATE_BYTES)
    format_image(files, FILES_BYTES)
    found: list[Cut] = []
    with disks(place, state, files):
        shutil.copy(empty_state, place / "state.db")
        write_platform(place / "platform.json", platform_of())
        os.sync()
        pid = fork_server.start("live", place, told=str(told))
        try:
            for number, station in enumerate(STATIONS):
                wait_until(lambda number=number: stopped_at(pid, told, number), what=station, every=0.005)  # type: ignore[misc]
                promises = promised(told)
                assert stations(promises) == STATIONS[: number + 1]
                cut = Cut(
                    station,
                    folder / f"{number}-state.img",
                    folder / f"{number}-files.img",
                    frozenset(what for kind, what in promises if kind == "event"),
                    tuple(what for kind, what in promises if kind == "published"),
                )
                what_a_power_cut_leaves(state, cut.state)
                what_a_power_cut_leaves(files, cut.files)
                found.append(cut)
                os.kill(pid, signal.SIGCONT)
        except BaseException:
            # It may stand at a station, for good.
            os.kill(pid, signal.SIGKILL)
            fork_server.wait(pid)
            raise
        assert fork_server.wait(pid) == 0, (place / "child.log").read_text()
    return found


def nothing_promised_is_lost(place: Path, cut: Cut) -> None:
    """What a machine finds and does that starts anew on what a power cut has left."""
    write_platform(place / "platform.json", platform_of(mark="after"))
    context = context_in(place)
    try:
        kept = {
            event.request_id
            for event in context.state.read(lambda stores: stores.audit.read(AuditQuery(limit=1_000_000)))
        }
        assert cut.events <= kept, f"{len(cut.events - kept)} acknowledged events are lost"
        current = context.state.read(lambda stores: stores.snapshots.current())
        if cut.published:
            assert current is not None
            # The moment itself belongs to the next promise already: it may have come true.
            assert current.snapshot_id == cut.published[-1]
        served = context.state.read(lambda stores: stores.snapshots.served())
        waiting = [
            run for run in context.state.read(lambda stores: stores.snapshots.recent()) if run.state == "complete"
        ]
        for snapshot in [*served, *waiting]:
            verified = verify_snapshot(context.state, context.store, snapshot.snapshot_id)
            assert (verified.files, verified.damaged) == (50, ())
        later = now() + timedelta(seconds=QUICK.lease_seconds + 1)
        context.state.write(lambda stores: stores.snapshots.lapse(later))
        done = run_by_hand(context)
        assert done.state is SnapshotState.PUBLISHED
        assert verify_snapshot(context.state, context.store, done.snapshot_id).damaged == ()
        assert list((place / "files" / "staging").iterdir()) == []
    finally:
        context.state.close()


def test_a_power_cut_anywhere_loses_nothing_that_was_promised(
    tmp_path: Path, empty_state: Path, fork_server: ForkServer
) -> None:
    # The disks themselves are in memory: what is a disk here is the machine's own memory anyway.
    memory = tmp_path / "memory"
    with memory_disk(memory, MEMORY_BYTES):
        cuts = cuts_of_a_life(memory, empty_state, fork_server)
        assert len(cuts[-1].events) > len(STATIONS)
        assert len(cuts[-1].published) == 4
        for number, cut in enumerate(cuts):
            place = memory / f"after {number}"
            with disks(place, cut.state, cut.files):
                try:
                    nothing_promised_is_lost(place, cut)
                except Exception as fault:
                    fault.add_note(f"The power was cut at station {number}: {cut.station}.")
                    raise
