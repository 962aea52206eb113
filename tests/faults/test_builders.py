"""Builders side by side, paused, shifted in time and killed: one run a day, one publication, no stale writer."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from daybreak.domain.audit import AuditQuery
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import last_due, publication_of
from daybreak.snapshots.verify import verify_snapshot
from tests.configured import DEFAULTS
from tests.faults.conftest import ForkServer
from tests.parts.waiting import wait_until
from tests.small_platform import context_in, now

PUBLISH_AT = DEFAULTS.snapshot.publish_at


@contextmanager
def looking_at(folder: Path) -> Iterator[RunContext]:
    context = context_in(folder)
    try:
        yield context
    finally:
        context.state.close()


def runs(context: RunContext) -> list[Snapshot]:
    return context.state.read(lambda stores: stores.snapshots.recent(200))


def set_clock(folder: Path, seconds: float) -> None:
    """Shifts the builders' clock; a file is replaced, so that nobody reads half of it."""
    (folder / "clock.new").write_text(str(seconds))
    (folder / "clock.new").replace(folder / "clock")


def test_of_many_schedulers_at_once_one_makes_the_day(folder: Path, fork_server: ForkServer) -> None:
    first_day = now().date() - timedelta(days=10)
    with looking_at(folder) as context:
        for round_number in range(4):
            day = first_day + timedelta(days=round_number)
            barrier = folder / f"go-{round_number}"
            pids = [fork_server.start("claim", folder, day=day.isoformat(), barrier=str(barrier)) for _ in range(8)]
            barrier.touch()
            assert [fork_server.wait(pid) for pid in pids] == [0] * 8, (folder / "child.log").read_text()
            said = Counter((folder / f"{pid}.done").read_text() for pid in pids)
            assert said["none"] == 7
            made = [run for run in runs(context) if run.day == day]
            assert [run.state for run in made] == [SnapshotState.PUBLISHED]
            assert made[0].snapshot_id in said
        published = context.state.read(lambda stores: stores.audit.read(AuditQuery(action="snapshot.published")))
        assert len({event.subject for event in published}) == len(published) == 4


def test_a_builder_that_slept_past_its_lease_writes_and_publishes_nothing(
    folder: Path, fork_server: ForkServer
) -> None:
    day = last_due(now(), PUBLISH_AT)
    barrier = folder / "go"
    barrier.touch()
    order = {"day": day.isoformat(), "barrier": str(barrier), "lease": 2, "heartbeat": 0.2}
    sleeper = fork_server.start("claim", folder, pause=0.1, **order)
    staging = folder / "files" / "staging"
    wait_until(lambda: any(staging.rglob("*.gz")), what="the first builder's first file")
    os.kill(sleeper, signal.SIGSTOP)
    try:
        with looking_at(folder) as context:

            def lease_is_over() -> bool:
                until = runs(context)[0].lease_until
                return until is not None and until < now()

            wait_until(lease_is_over, what="the end of the lease")
            other = fork_server.start("claim", folder, **order)
            assert fork_server.wait(other) == 0, (folder / "child.log").read_text()
            taken_over = (folder / f"{other}.done").read_text()
            os.kill(sleeper, signal.SIGCONT)
            assert fork_server.wait(sleeper) == 1, "the sleeper finds out and fails"
            assert not (folder / f"{sleeper}.done").exists()
            assert "RunFenced" in (folder / "child.log").read_text()
            states = {run.snapshot_id: run.state for run in runs(context)}
            assert states.pop(taken_over) is SnapshotState.PUBLISHED
            assert set(states.values()) == {SnapshotState.FAILED}
            verified = verify_snapshot(context.state, context.store, taken_over)
            assert (verified.files, verified.damaged) == (50, ())
            assert {path.name for path in (folder / "files" / "snapshots").iterdir()} == {taken_over}
            assert list(staging.iterdir()) == []
    finally:
        # It is over by now, unless the test failed while it slept.
        with contextlib.suppress(ProcessLookupError):
            os.kill(sleeper, signal.SIGCONT)


def published(context: RunContext) -> list[Snapshot]:
    """What was ever published, oldest first."""
    return [run for run in reversed(runs(context)) if run.published_at is not None]


def test_builders_publish_once_a_day_at_four_sharp_whatever_the_clock_does(
    folder: Path, fork_server: ForkServer
) -> None:
    """Two builders on one database, their clock moved: to before four, over four, on by three days, back by two."""
    due = last_due(now(), PUBLISH_AT)
    four = publication_of(due + timedelta(days=1), PUBLISH_AT)
    # Long before the next run would start, with nothing served: the missed day is made up for at once.
    set_clock(folder, (four - timedelta(hours=12) - now()).total_seconds())
    builders = [fork_server.start("build", folder) for _ in range(2)]
    try:
        with looking_at(folder) as context:
            wait_until(lambda: len(published(context)) == 1, 120, what="the missed publication")
            assert published(context)[0].day == due

            set_clock(folder, (four - timedelta(minutes=9) - now()).total_seconds())
            complete = wait_until(
                lambda: [run for run in runs(context) if run.state is SnapshotState.COMPLETE],
                120,
                what="tomorrow's snapshot before its hour",
            )
            assert complete[0].day == due + timedelta(days=1)
            assert len(published(context)) == 1, "it is not published early"
            set_clock(folder, (four - timedelta(seconds=2) - now()).total_seconds())
            wait_until(lambda: len(published(context)) == 2, 120, what="the publication at four")
            second = published(context)[1]
            assert second.snapshot_id == complete[0].snapshot_id
            assert second.published_at is not None
            assert second.published_at >= four

            set_clock(folder, (four + timedelta(days=3, hours=2) - now()).total_seconds())
            wait_until(lambda: len(published(context)) == 3, 120, what="the catch-up")
            assert published(context)[2].day == due + timedelta(days=4)

            set_clock(folder, (four + timedelta(days=1, hours=2) - now()).total_seconds())
            beats = context.state.read(lambda stores: len(stores.snapshots.recent(200)))
            looked = [_looks(folder)]
            wait_until(lambda: _looks(folder) >= looked[0] + 4, 120, what="the builders to look at the clock again")
            assert context.state.read(lambda stores: len(stores.snapshots.recent(200))) == beats
            assert len(published(context)) == 3
    finally:
        for pid in builders:
            os.kill(pid, signal.SIGTERM)
        ended = [fork_server.wait(pid) for pid in builders]
    assert ended == [0, 0], (folder / "child.log").read_text()


def _looks(folder: Path) -> int:
    """How often the builders have read their clock since the test last moved it."""
    looks = folder / "looks"
    return looks.stat().st_size if looks.exists() else 0


def test_a_builder_whose_database_goes_away_waits_and_goes_on(folder: Path, fork_server: ForkServer) -> None:
    builder = fork_server.start("build", folder)
    try:
        with looking_at(folder) as context:
            wait_until(lambda: len(published(context)) == 1, 120, what="the first publication")
            blocker = sqlite3.connect(folder / "state.db", isolation_level=None)
            blocker.execute("BEGIN EXCLUSIVE")
            set_clock(folder, timedelta(days=2).total_seconds())
            log = folder / "child.log"
            wait_until(lambda: "state_unavailable" in log.read_text(), 120, what="the builder to notice")
            blocker.execute("ROLLBACK")
            blocker.close()
            wait_until(lambda: len(published(context)) == 2, 120, what="the publication after the outage")
    finally:
        os.kill(builder, signal.SIGTERM)
        assert fork_server.wait(builder) == 0


def test_lateness_is_logged_while_the_run_that_is_late_goes_on(folder: Path, fork_server: ForkServer) -> None:
    # Longer than the test waits: the run is under way when the log is read.
    builder = fork_server.start("build", folder, pause=20)
    log = folder / "child.log"
    try:
        wait_until(lambda: "still being built" in log.read_text(), 120, what="the builder to say that it is late")
        with looking_at(folder) as context:
            assert [run.state for run in runs(context)] == [SnapshotState.BUILDING]
        assert "files.late" in log.read_text()
    finally:
        os.kill(builder, signal.SIGKILL)
        fork_server.wait(builder)
