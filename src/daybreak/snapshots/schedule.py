"""When to do what: pure functions of the clock, the runs so far, and the hour of publication.

Days are UTC days and the hour is UTC: no zone, no daylight saving. A decision is made anew at every look at the clock
from what the database says, so a clock that steps, a night that was slept through and several schedulers need no
special case: the day is claimed in the database, and a day that is done is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.plan import RunPlan
from daybreak.snapshots.report import figure, resources_of

_DAY = timedelta(days=1)
_LEAD_MOST = timedelta(hours=20)
_RETRY_MOST_SECONDS = 3600.0
_HISTORY = 7
_GROWTH = 1.1
_COMPARABLE = 0.5
_UNFINISHED = frozenset({SnapshotState.BUILDING, SnapshotState.FAILED})
_VANISHED_AT_ONCE = 2
STOPPED = "run_stopped"
LAPSED = "lease_lapsed"
_NO_FAULT_OF_THE_RUN = frozenset({STOPPED, "run_fenced"})


@dataclass(frozen=True, slots=True)
class Build:
    """Claim this day now."""

    day: date


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish this complete snapshot now."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before that instant."""

    until: datetime


Decision = Build | Publish | Wait


def publication_of(day: date, publish_at: time_of_day) -> datetime:
    """The instant of a day's publication."""
    return datetime.combine(day, publish_at.replace(tzinfo=None), tzinfo=UTC)


def last_due(now: datetime, publish_at: time_of_day) -> date:
    """The latest day whose publication instant has come. Raises ValueError on a naive time."""
    if now.tzinfo is None:
        raise ValueError("now needs a time zone")
    today = now.astimezone(UTC).date()
    return today if publication_of(today, publish_at) <= now else today - _DAY


def next_publication(now: datetime, publish_at: time_of_day) -> datetime:
    """The next instant of publication, later than now."""
    return publication_of(last_due(now, publish_at) + _DAY, publish_at)


def expected_duration(history: Iterable[Snapshot]) -> timedelta | None:
    """How long the next run takes, from the runs that came to an end (newest first); None without any.

    For each resource its slowest rate of the last runs times its latest number of rows and some growth; the rest of a
    run (opening, verifying, sealing) at its longest. A run with far fewer rows says nothing about their rate: most of
    its seconds went elsewhere.
    """
    reports = [run.report for run in history if run.report.get("seconds") and run.state not in _UNFINISHED][:_HISTORY]
    if not reports:
        return None
    rest = 0.0
    latest = {name: max(figure(entry, "rows"), 1.0) for name, entry in resources_of(reports[0]).items()}
    slowest = dict.fromkeys(latest, 0.0)
    for report in reports:
        seconds_left = figure(report, "seconds")
        for name, entry in resources_of(report).items():
            seconds, rows = figure(entry, "seconds"), max(figure(entry, "rows"), 1.0)
            seconds_left -= seconds
            if name in latest and rows >= latest[name] * _COMPARABLE:
                slowest[name] = max(slowest[name], seconds / rows)
        rest = max(rest, seconds_left)
    work = sum(slowest[name] * rows * _GROWTH for name, rows in latest.items())
    longest = max(figure(report, "seconds") for report in reports)
    return timedelta(seconds=max(work + max(rest, 0.0), longest))


def planned_start(publication: datetime, history: Iterable[Snapshot], plan: RunPlan) -> datetime:
    """When the run for that publication starts: early by the expected duration with margin."""
    expected = expected_duration(history)
    lead = plan.lead_first if expected is None else expected * plan.margin + plan.lead_least
    return publication - min(max(lead, plan.lead_least), _LEAD_MOST)


def next_try(day: date, history: Sequence[Snapshot], plan: RunPlan) -> datetime | None:
    """When a day that failed is tried again; None when it may be at once. A run that was stopped on purpose is no
    failure of the day, and a builder that vanished is one only when it happens again and again.
    """
    failed = [run for run in history if run.day == day and run.state is SnapshotState.FAILED]
    hard = [run for run in failed if run.report.get("code") not in _NO_FAULT_OF_THE_RUN]
    vanished = [run for run in failed if run.report.get("code") is None or run.report.get("code") == LAPSED]
    if len(vanished) <= _VANISHED_AT_ONCE:
        hard = [run for run in hard if run not in vanished]
    if not hard:
        return None
    last = max(run.finished_at or run.started_at for run in hard)
    seconds = min(plan.day_retry_seconds * 2.0 ** min(len(hard) - 1, 20), _RETRY_MOST_SECONDS)
    return last + timedelta(seconds=seconds)


def answers(current: Snapshot | None, run: Snapshot | None, due: datetime) -> bool:
    """Whether what is served is what that publication promised: published for it or later (by schedule or by hand), or
    newer than the day's own run, which it made superfluous.
    """
    if current is None or current.published_at is None:
        return False
    if run is not None and run.state is SnapshotState.DISCARDED and run.as_of <= current.as_of:
        return True
    return current.published_at >= due and current.as_of >= due - _DAY


def decide(now: datetime, plan: RunPlan, current: Snapshot | None, history: Sequence[Snapshot]) -> Decision:
    """What a scheduler does now. `history` is newest first and reaches back over the last days' runs."""
    due_day = last_due(now, plan.publish_at)
    coming_day = due_day + _DAY
    coming = publication_of(coming_day, plan.publish_at)
    missed = run_of(due_day, history)
    answered = answers(current, missed, publication_of(due_day, plan.publish_at))
    if not answered and missed is not None and missed.state is SnapshotState.COMPLETE:
        return Publish(missed)
    busy = [run.lease_until for run in history if run.day is not None and run.under_way(now) and run.lease_until]
    if busy:
        return Wait(min(*busy, coming))
    start = planned_start(coming, history, plan)
    wait = Wait(coming)
    made = run_of(coming_day, history)
    near = now >= start or (made is not None and made.state is SnapshotState.COMPLETE)
    if not answered and (not near or current is None):
        # A missed day is made up for, unless the next one's run is about to start anyway, or waits for its hour: that
        # would be pushed aside.
        decision = _try_day(due_day, now, plan, history)
        if isinstance(decision, Build):
            return decision
        wait = Wait(min(wait.until, decision.until))
    if now < start:
        return Wait(min(wait.until, start))
    decision = _try_day(coming_day, now, plan, history)
    return decision if isinstance(decision, Build) else Wait(min(wait.until, decision.until))


def run_of(day: date, history: Sequence[Snapshot]) -> Snapshot | None:
    """The day's latest run (histories are newest first)."""
    return next((run for run in history if run.day == day), None)


def _try_day(day: date, now: datetime, plan: RunPlan, history: Sequence[Snapshot]) -> Build | Wait:
    run = run_of(day, history)
    if run is not None and run.state not in _UNFINISHED:
        return Wait(next_publication(now, plan.publish_at))
    again = next_try(day, history, plan)
    return Wait(again) if again is not None and again > now else Build(day)
