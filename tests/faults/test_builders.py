"""Concurrent, paused and killed builders, and clock changes: one publication per day, no write by a stale builder."""

import contextlib
import os
import signal
import sqlite3
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from daybreak.domain.audit import AuditQuery
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import last_due, publication_of
from daybreak.snapshots.verify import verify_snapshot
from tests.configured import DEFAULTS
from tests.faults.conftest import ForkServer
from tests.parts.waiting import wait_until
from tests.small_platform import now, open_context

PUBLISH_AT = DEFAULTS.snapshot.publish_at


def runs(context: RunContext) -> list[Snapshot]:
    return context.state.read(lambda stores: stores.snapshots.recent(200))


def set_clock(folder: Path, seconds: float) -> None:
    """Set the offset of the builders' clock. Replacing the file makes the change atomic."""
    (folder / "clock.new").write_text(str(seconds))
    (folder / "clock.new").replace(folder / "clock")


def test_one_of_eight_concurrent_builders_runs_the_day(folder: Path, fork_server: ForkServer) -> None:
    first_day = now().date() - timedelta(days=10)
    with open_context(folder) as context:
        for round_number in range(4):
            day = first_day + timedelta(days=round_number)
            barrier = folder / f"go-{round_number}"
            pids = [fork_server.start("claim", folder, day=day.isoformat(), barrier=str(barrier)) for _ in range(8)]
            barrier.touch()
            assert [fork_server.wait(pid) for pid in pids] == [0] * 8, (folder / "child.log").read_text()
            results = Counter((folder / f"{pid}.result").read_text() for pid in pids)
            assert results["none"] == 7
            of_day = [run for run in runs(context) if run.day == day]
            assert [run.state for run in of_day] == [SnapshotState.PUBLISHED]
            assert of_day[0].snapshot_id in results
        published = context.state.read(lambda stores: stores.audit.read(AuditQuery(action="snapshot.published")))
        assert len({event.subject for event in published}) == len(published) == 4


def test_builder_paused_past_its_lease_publishes_nothing(folder: Path, fork_server: ForkServer) -> None:
    day = last_due(now(), PUBLISH_AT)
    barrier = folder / "go"
    barrier.touch()
    options = {"day": day.isoformat(), "barrier": str(barrier), "lease": 2, "heartbeat": 0.2}
    paused = fork_server.start("claim", folder, pause=0.1, **options)
    staging = folder / "files" / "staging"
    wait_until(lambda: any(staging.rglob("*.pack")), what="the first builder's first file")
    os.kill(paused, signal.SIGSTOP)
    try:
        with open_context(folder) as context:

            def lease_has_expired() -> bool:
                until = runs(context)[0].lease_until
                return until is not None and until < now()

            wait_until(lease_has_expired, what="the end of the lease")
            other = fork_server.start("claim", folder, **options)
            assert fork_server.wait(other) == 0, (folder / "child.log").read_text()
            taken_over = (folder / f"{other}.result").read_text()
            os.kill(paused, signal.SIGCONT)
            assert fork_server.wait(paused) == 1, "the paused builder detects the takeover and fails"
            assert not (folder / f"{paused}.result").exists()
            assert "RunFenced" in (folder / "child.log").read_text()
            states = {run.snapshot_id: run.state for run in runs(context)}
            assert states.pop(taken_over) is SnapshotState.PUBLISHED
            assert set(states.values()) == {SnapshotState.FAILED}
            verified = verify_snapshot(context.state, context.store, taken_over)
            assert (verified.files, verified.damaged) == (50, ())
            assert {path.name for path in (folder / "files" / "snapshots").iterdir()} == {taken_over}
            assert list(staging.iterdir()) == []
    finally:
        # The process has ended, unless the test failed while it was paused.
        with contextlib.suppress(ProcessLookupError):
            os.kill(paused, signal.SIGCONT)


def published(context: RunContext) -> list[Snapshot]:
    """Return all runs that were published, oldest first."""
    return [run for run in reversed(runs(context)) if run.published_at is not None]


@pytest.mark.release
def test_clock_changes_cause_no_early_or_repeated_publication(folder: Path, fork_server: ForkServer) -> None:
    """The clock of two builders moves to just before a publication, past it, three days ahead, and two days back."""
    due = last_due(now(), PUBLISH_AT)
    publication = publication_of(due + timedelta(days=1), PUBLISH_AT)
    # The next scheduled run is hours away. No snapshot is served, so the missed day is built immediately.
    set_clock(folder, (publication - timedelta(hours=12) - now()).total_seconds())
    builders = [fork_server.start("build", folder) for _ in range(2)]
    try:
        with open_context(folder) as context:
            wait_until(lambda: len(published(context)) == 1, 120, what="the missed publication")
            assert published(context)[0].day == due

            set_clock(folder, (publication - timedelta(minutes=9) - now()).total_seconds())
            complete = wait_until(
                lambda: [run for run in runs(context) if run.state is SnapshotState.COMPLETE],
                120,
                what="tomorrow's snapshot before its publication time",
            )
            assert complete[0].day == due + timedelta(days=1)
            assert len(published(context)) == 1, "the snapshot is not published early"
            set_clock(folder, (publication - timedelta(seconds=2) - now()).total_seconds())
            wait_until(lambda: len(published(context)) == 2, 120, what="the scheduled publication")
            second = published(context)[1]
            assert second.snapshot_id == complete[0].snapshot_id
            assert second.published_at is not None
            assert second.published_at >= publication

            set_clock(folder, (publication + timedelta(days=3, hours=2) - now()).total_seconds())
            wait_until(lambda: len(published(context)) == 3, 120, what="the catch-up publication")
            assert published(context)[2].day == due + timedelta(days=4)

            set_clock(folder, (publication + timedelta(days=1, hours=2) - now()).total_seconds())
            run_count = context.state.read(lambda stores: len(stores.snapshots.recent(200)))
            earlier_reads = [_clock_reads(folder)]
            wait_until(
                lambda: _clock_reads(folder) >= earlier_reads[0] + 4, 120, what="the builders to read the clock again"
            )
            assert context.state.read(lambda stores: len(stores.snapshots.recent(200))) == run_count
            assert len(published(context)) == 3
    finally:
        for pid in builders:
            os.kill(pid, signal.SIGTERM)
        ended = [fork_server.wait(pid) for pid in builders]
    assert ended == [0, 0], (folder / "child.log").read_text()


def _clock_reads(folder: Path) -> int:
    """Return how often the builders have read their clock."""
    clock_reads = folder / "clock_reads"
    return clock_reads.stat().st_size if clock_reads.exists() else 0


@pytest.mark.release
def test_builder_recovers_from_a_database_outage(folder: Path, fork_server: ForkServer) -> None:
    builder = fork_server.start("build", folder)
    try:
        with open_context(folder) as context:
            wait_until(lambda: len(published(context)) == 1, 120, what="the first publication")
            blocker = sqlite3.connect(folder / "state.db", isolation_level=None)
            blocker.execute("BEGIN EXCLUSIVE")
            set_clock(folder, timedelta(days=2).total_seconds())
            log = folder / "child.log"
            wait_until(lambda: "state_unavailable" in log.read_text(), 120, what="the builder to report the outage")
            blocker.execute("ROLLBACK")
            blocker.close()
            wait_until(lambda: len(published(context)) == 2, 120, what="the publication after the outage")
    finally:
        os.kill(builder, signal.SIGTERM)
        assert fork_server.wait(builder) == 0


@pytest.mark.release
def test_lateness_is_logged_during_a_late_run(folder: Path, fork_server: ForkServer) -> None:
    # The pause is so long that the run is still in progress when the test reads the log.
    builder = fork_server.start("build", folder, pause=20)
    log = folder / "child.log"
    try:
        wait_until(lambda: "still being built" in log.read_text(), 120, what="the log message about the late run")
        with open_context(folder) as context:
            assert [run.state for run in runs(context)] == [SnapshotState.BUILDING]
        assert "files.late" in log.read_text()
    finally:
        os.kill(builder, signal.SIGKILL)
        fork_server.wait(builder)
