"""Freshness: what is published, when the next files are expected, and why a publication is late.

Pages, API responses and logs use the same functions and wording.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from datetime import time as time_of_day

from msgspec import UNSET

from daybreak.domain.snapshot import Freshness, PublicationState, Snapshot, SnapshotState
from daybreak.snapshots.report import format_share
from daybreak.snapshots.schedule import (
    UNFINISHED,
    RunTimings,
    expected_duration,
    is_satisfied,
    last_due,
    next_attempt,
    next_publication,
    publication_of,
    run_of,
)
from daybreak.state.snapshots import SnapshotStore

# A publication is not instantaneous.
GRACE = timedelta(seconds=60)
_RECENT_RUNS = 5
_DAY = timedelta(days=1)
_CLOCK_BEHIND = "The clock is behind the published snapshot. An operator must check the clock."


def freshness(snapshots: SnapshotStore, now: datetime, publish_at: time_of_day) -> Freshness:
    """Return the freshness from the database."""
    due_day = last_due(now, publish_at)
    current, run, next_run = snapshots.current(), snapshots.of_day(due_day), snapshots.of_day(due_day + _DAY)
    days = [each for each in (next_run, run) if each is not None]
    found = assess_freshness(current, days, now, publish_at)
    if not found.late:
        return found
    # Lateness also depends on other runs: a manual run may be in progress, and failures delay the next attempt.
    recent = snapshots.recent(_RECENT_RUNS)
    known = {each.snapshot_id for each in recent}
    history = [*recent, *(each for each in days if each.snapshot_id not in known)]
    return assess_freshness(current, history, now, publish_at)


def assess_freshness(
    current: Snapshot | None, history: Sequence[Snapshot], now: datetime, publish_at: time_of_day
) -> Freshness:
    """Return the freshness from the published snapshot and the runs of the last days, newest first.

    If a run will end after its hour, the next files are expected at its end. During a publication, that publication is
    expected. The files of a failed day are expected at the end of its next attempt.
    """
    due_day = last_due(now, publish_at)
    due = publication_of(due_day, publish_at)
    run = run_of(due_day, history)
    coming = _expected_publication(current, run_of(due_day + _DAY, history), now, publish_at)
    clock_behind = current is not None and current.is_ahead_of(now)
    if is_satisfied(current, run, due) and not clock_behind:
        return Freshness(snapshot=current, next_expected_at=coming, late=False)
    # The next day's run does not publish this day's files, which may be held or have failed.
    running = next((each for each in history if each.is_running(now) and each.day in {due_day, None}), None)
    state = _state(current, run, running, late=now > due + GRACE)
    expected = expected_end(running, now) if running else None
    if expected is None:
        expected = _usual_end(running or run, current, history, now)
    if now <= due + GRACE:
        return Freshness(snapshot=current, next_expected_at=expected or due + GRACE, late=False, state=state)
    reason = _reason(run, running, history)
    if clock_behind and running is None and not _is_held(run):
        reason = _CLOCK_BEHIND
    return Freshness(
        snapshot=current,
        next_expected_at=expected or coming,
        late=True,
        reason=reason,
        state=state,
        late_since=_late_since(current, due, publish_at),
        next_attempt_at=_next_attempt(run, history, now) if state is PublicationState.FAILED else None,
    )


def is_on_schedule(expected_at: datetime, publish_at: time_of_day) -> bool:
    """Return whether `expected_at` is the hour of a publication, and not the end of a late run."""
    return expected_at <= publication_of(last_due(expected_at, publish_at), publish_at) + GRACE


def expected_end(running: Snapshot, now: datetime) -> datetime | None:
    """Return the end that the builder expects of its run, None when it is unknown or has passed."""
    end = running.progress.expected_end
    return end if end is not UNSET and end > now else None


def _state(current: Snapshot | None, run: Snapshot | None, running: Snapshot | None, *, late: bool) -> PublicationState:
    if running is not None and current is None:
        return PublicationState.FIRST_RUN
    if late and running is None and _is_held(run):
        return PublicationState.HELD
    if late and running is None and run is not None and run.state in UNFINISHED:
        return PublicationState.FAILED
    if current is None:
        return PublicationState.UNPUBLISHED
    return PublicationState.LATE if late else PublicationState.FRESH


def _late_since(current: Snapshot | None, due: datetime, publish_at: time_of_day) -> datetime:
    """Return the first publication that was missed: the one after the published snapshot, or the last one."""
    if current is None or current.published_at is None:
        return due
    return min(next_publication(current.published_at, publish_at), due)


def _next_attempt(run: Snapshot | None, history: Sequence[Snapshot], now: datetime) -> datetime | None:
    """Return when a failed day is built again, None if that is due already."""
    return next_attempt(run.day, history, RunTimings(), now) if run is not None and run.day is not None else None


def _is_held(run: Snapshot | None) -> bool:
    return run is not None and run.state is SnapshotState.HELD


def _expected_publication(
    current: Snapshot | None, run: Snapshot | None, now: datetime, publish_at: time_of_day
) -> datetime:
    """Return the next publication: its hour, or the end of its run if that is later. That of the day after if the run
    was published before its hour.
    """
    hour = next_publication(now, publish_at)
    if run is not None and is_satisfied(current, run, hour):
        return hour + _DAY
    end = expected_end(run, now) if run is not None and run.is_running(now) else None
    return end if end is not None and end > hour + GRACE else hour


def _reason(run: Snapshot | None, running: Snapshot | None, history: Sequence[Snapshot]) -> str:
    """Return why the files are late, for users of an account. Operators find details in the run and in the log."""
    if running is not None:
        share = running.progress.share
        done = "" if share is UNSET else f" ({format_share(share)} done)"
        return f"Today's files are still being built{done}."
    if run is None and not history:
        return "The first run has not started."
    if run is None and history[0].state is SnapshotState.FAILED:
        return "The last run failed. The run for today's files starts as soon as possible."
    if run is None:
        return "The run for today's files has not started. It starts as soon as possible."
    if _is_held(run):
        return "Today's files are held until an operator reviews them."
    if run.state in UNFINISHED:
        return "Today's files failed to build. Another attempt follows."
    if run.state is SnapshotState.DISCARDED:
        return "Today's files were discarded by an operator."
    return "Today's files are complete and about to be published."


def _usual_end(
    run: Snapshot | None, current: Snapshot | None, history: Sequence[Snapshot], now: datetime
) -> datetime | None:
    """Return the end of a running run, or of the next attempt of a failed day, if it takes as long as earlier runs.
    Return None if the end is unknown or has passed.
    """
    duration = expected_duration([*history, current] if current is not None else history)
    if run is None or duration is None:
        return None
    if run.is_running(now):
        end = run.started_at + duration
        return end if end > now else None
    start = _next_attempt(run, history, now) if run.state is SnapshotState.FAILED else None
    return start + duration if start is not None else None
