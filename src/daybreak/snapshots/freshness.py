"""How fresh the files are, said the same way on every page, in every answer and in the logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from datetime import time as time_of_day

from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.ports.snapshot_store import SnapshotStore
from daybreak.snapshots.plan import RunPlan
from daybreak.snapshots.schedule import (
    answers,
    expected_duration,
    last_due,
    next_publication,
    next_try,
    publication_of,
    run_of,
)

# Publication itself takes a moment: until then nothing is called late.
_GRACE = timedelta(seconds=60)
_LOOK_BACK = 5
_AHEAD = "The clock says less than what is served shows: an operator has to look which is right."
_DAY = timedelta(days=1)


def freshness(snapshots: SnapshotStore, now: datetime, publish_at: time_of_day) -> Freshness:
    """What is served, when the next files are expected, and whether a publication is late, with the reason."""
    due_day = last_due(now, publish_at)
    current, run, next_run = snapshots.current(), snapshots.of_day(due_day), snapshots.of_day(due_day + _DAY)
    days = [each for each in (next_run, run) if each is not None]
    told = judge(current, days, now, publish_at)
    if not told.late:
        return told
    # Lateness asks for more: a run by hand may be under way; when a day is tried again hangs on how often it failed.
    recent = snapshots.recent(_LOOK_BACK)
    known = {each.snapshot_id for each in recent}
    return judge(current, [*recent, *(each for each in days if each.snapshot_id not in known)], now, publish_at)


def judge(current: Snapshot | None, history: Sequence[Snapshot], now: datetime, publish_at: time_of_day) -> Freshness:
    """The same from values. `history` is newest first. A run that will end too late is told of before its hour: the
    next files are then expected at its end. In the moment that a publication takes, it is the one that is expected. A
    day that failed is expected at the end of its next try, if that takes as long as runs do.
    """
    due_day = last_due(now, publish_at)
    due = publication_of(due_day, publish_at)
    run = run_of(due_day, history)
    coming = _expected_publication(run_of(due_day + _DAY, history), now, publish_at)
    ahead = current is not None and current.ahead_of(now)
    if answers(current, run, due) and not ahead:
        return Freshness(snapshot=current, next_expected_at=coming, late=False)
    # The next day's run says nothing about this day's, which may be held or have failed.
    running = next((each for each in history if each.under_way(now) and each.day in {due_day, None}), None)
    expected = expected_end(running, now) if running else None
    if expected is None:
        expected = _usual_end(running or run, current, history, now)
    if now <= due + _GRACE:
        return Freshness(snapshot=current, next_expected_at=expected or due + _GRACE, late=False)
    reason = _AHEAD if ahead and running is None and not _held(run) else _reason(current, run, running)
    return Freshness(snapshot=current, next_expected_at=expected or coming, late=True, reason=reason)


def _held(run: Snapshot | None) -> bool:
    return run is not None and run.state is SnapshotState.HELD


def at_its_hour(expected_at: datetime, publish_at: time_of_day) -> bool:
    """Whether files that are expected then come with a publication at its hour, and not when a long run ends."""
    return expected_at <= publication_of(last_due(expected_at, publish_at), publish_at) + _GRACE


def expected_end(running: Snapshot, now: datetime) -> datetime | None:
    """The end that the builder itself expects, while it is still to come."""
    text = running.progress.get("expected_end")
    if not isinstance(text, str):
        return None
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        return None
    return end if end.tzinfo is not None and end > now else None


def _expected_publication(run: Snapshot | None, now: datetime, publish_at: time_of_day) -> datetime:
    """When the next publication comes: at its hour, or when its run ends that will not make it by then."""
    hour = next_publication(now, publish_at)
    end = expected_end(run, now) if run is not None and run.under_way(now) else None
    return end if end is not None and end > hour + _GRACE else hour


def _reason(current: Snapshot | None, run: Snapshot | None, running: Snapshot | None) -> str:
    """Fit for an account's people: what exactly failed is for the operator, in the run and in the log."""
    if running is not None:
        done = running.progress.get("share")
        share = f" ({done:.0%} done)" if isinstance(done, float) else ""
        return f"Today's snapshot is still being made{share}."
    if run is None and current is None:
        return "The first snapshot has not been made yet."
    if run is None:
        return "Today's snapshot has not been started; it is made up for as soon as possible."
    if _held(run):
        return "Today's snapshot is held back until an operator has looked at it."
    if run.state in {SnapshotState.FAILED, SnapshotState.BUILDING}:
        return "Making today's snapshot failed; it is tried again."
    if run.state is SnapshotState.DISCARDED:
        return "Today's snapshot was discarded by an operator."
    return "Today's snapshot is complete and about to be published."


def _usual_end(
    run: Snapshot | None, current: Snapshot | None, history: Sequence[Snapshot], now: datetime
) -> datetime | None:
    """The end of a run that is under way, or of the next try of a day whose run failed, if it takes as long as runs do.
    None when that is not known, or when it should be over or begun already: then it is no promise.
    """
    takes = expected_duration([*history, current] if current is not None else history)
    if run is None or takes is None:
        return None
    if run.under_way(now):
        end = run.started_at + takes
        return end if end > now else None
    if run.state is not SnapshotState.FAILED or run.day is None:
        return None
    start = next_try(run.day, history, RunPlan())
    return start + takes if start is not None and start > now else None
