"""Scheduling: pure functions of the clock, the earlier runs and the hour of publication.

Days and hours are in UTC, without daylight saving time. Each decision depends only on the clock and the database, and a
day is claimed in the database. Clock steps, suspended machines and several schedulers therefore need no special case.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day

from daybreak.domain.clock import MAX_DIFFERENCE
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.settings import SnapshotSettings

_DAY = timedelta(days=1)
MAX_LEAD = timedelta(hours=20)
_LEAD_WITHOUT_HISTORY = timedelta(hours=1)
_DURATION_FACTOR = 1.5
_MAX_RETRY_SECONDS = 3600.0
_REPORTS = 7
_GROWTH = 1.1
_MIN_COMPARABLE_SHARE = 0.5
UNFINISHED = frozenset({SnapshotState.BUILDING, SnapshotState.FAILED})
_DECIDED = frozenset({SnapshotState.PUBLISHED, SnapshotState.RETIRED, SnapshotState.DISCARDED})
_FREE_RETRIES = 2
STOPPED = "run_stopped"
LAPSED = "lease_lapsed"
_INTERRUPTED = frozenset({STOPPED, "run_fenced"})


@dataclass(frozen=True, slots=True)
class RunTimings:
    """Duration of a lease on a run, and times of retries.

    A builder renews its lease of `lease_seconds` every `heartbeat_seconds`. A run that fails with a transient error is
    attempted up to `attempts` times. The first retry is after `retry_seconds`, and the delay doubles each time. A day
    whose run failed is retried after `day_retry_seconds`, a delay that doubles up to an hour.
    """

    lease_seconds: int = 120
    heartbeat_seconds: float = 10.0
    attempts: int = 3
    retry_seconds: float = 5.0
    day_retry_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Build:
    """Decision to claim this day now."""

    day: date


@dataclass(frozen=True, slots=True)
class Publish:
    """Decision to publish this complete snapshot now."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Wait:
    """Decision to do nothing before this instant."""

    until: datetime


Decision = Build | Publish | Wait


def publication_of(day: date, publish_at: time_of_day) -> datetime:
    """Return the instant of a day's publication."""
    return datetime.combine(day, publish_at.replace(tzinfo=None), tzinfo=UTC)


def last_due(now: datetime, publish_at: time_of_day) -> date:
    """Return the latest day whose publication is due. Raises ValueError for a time without a zone."""
    if now.tzinfo is None:
        raise ValueError("now needs a time zone")
    today = now.astimezone(UTC).date()
    return today if publication_of(today, publish_at) <= now else today - _DAY


def next_publication(now: datetime, publish_at: time_of_day) -> datetime:
    """Return the next instant of publication, later than now."""
    return publication_of(last_due(now, publish_at) + _DAY, publish_at)


def expected_duration(history: Iterable[Snapshot]) -> timedelta | None:
    """Estimate the duration of the next run from finished runs, newest first. None without any.

    Each resource takes its slowest recent rate times its latest number of rows, with some growth; the other phases take
    their longest recent time. Runs with far fewer rows are not used for rates, because most of their time is overhead.
    """
    reports = [run.report for run in history if run.report.seconds and run.state not in UNFINISHED][:_REPORTS]
    if not reports:
        return None
    overhead = 0.0
    latest = {name: max(figures.rows, 1) for name, figures in reports[0].by_resource.items()}
    slowest = dict.fromkeys(latest, 0.0)
    for report in reports:
        seconds_left = report.seconds or 0.0
        for name, figures in report.by_resource.items():
            rows = max(figures.rows, 1)
            seconds_left -= figures.seconds
            if name in latest and rows >= latest[name] * _MIN_COMPARABLE_SHARE:
                slowest[name] = max(slowest[name], figures.seconds / rows)
        overhead = max(overhead, seconds_left)
    exporting = sum(slowest[name] * rows * _GROWTH for name, rows in latest.items())
    longest = max(report.seconds or 0.0 for report in reports)
    return timedelta(seconds=max(exporting + max(overhead, 0.0), longest))


def planned_start(publication: datetime, history: Iterable[Snapshot], margin: timedelta) -> datetime:
    """Return when the run for a publication starts: 1.5 times the expected duration plus `margin` before it."""
    expected = expected_duration(history)
    lead = _LEAD_WITHOUT_HISTORY if expected is None else expected * _DURATION_FACTOR + margin
    return publication - min(max(lead, margin), MAX_LEAD)


def next_attempt(day: date, history: Sequence[Snapshot], timings: RunTimings, now: datetime) -> datetime | None:
    """Return when a failed day is retried, None if it can be retried immediately.

    A run that was stopped intentionally does not count as a failure, nor one from before the clock was set back. Runs
    whose builder died count only if there are more than `_FREE_RETRIES`.
    """
    failed = [run for run in history if run.day == day and run.state is SnapshotState.FAILED]
    counted = [run for run in failed if run.report.code not in _INTERRUPTED]
    died = [run for run in failed if run.report.code is None or run.report.code == LAPSED]
    if len(died) <= _FREE_RETRIES:
        counted = [run for run in counted if run not in died]
    ends = [end for run in counted if (end := run.finished_at or run.started_at) <= now + MAX_DIFFERENCE]
    if not ends:
        return None
    seconds = min(timings.day_retry_seconds * 2.0 ** min(len(ends) - 1, 20), _MAX_RETRY_SECONDS)
    attempt_at = max(ends) + timedelta(seconds=seconds)
    return attempt_at if attempt_at > now else None


def is_satisfied(current: Snapshot | None, run: Snapshot | None, due: datetime) -> bool:
    """Return whether the published snapshot satisfies the publication at `due`: it was published then or later, by
    schedule or manually, or it is the day's run, published earlier, or newer than that run.
    """
    if current is None or current.published_at is None:
        return False
    if run is not None and run.state in _DECIDED and run.as_of <= current.as_of:
        return True
    return current.published_at >= due and current.as_of >= due - _DAY


def decide(
    now: datetime,
    settings: SnapshotSettings,
    timings: RunTimings,
    current: Snapshot | None,
    history: Sequence[Snapshot],
) -> Decision:
    """Return the next action of a builder. `history` has the runs of the last days, newest first."""
    due_day = last_due(now, settings.publish_at)
    coming_day = due_day + _DAY
    coming = publication_of(coming_day, settings.publish_at)
    missed = run_of(due_day, history)
    satisfied = is_satisfied(current, missed, publication_of(due_day, settings.publish_at))
    if not satisfied and missed is not None and missed.state is SnapshotState.COMPLETE:
        return Publish(missed)
    leases = [run.lease_until for run in history if run.day is not None and run.is_running(now) and run.lease_until]
    if leases:
        return Wait(min(*leases, coming))
    start = planned_start(coming, history, settings.margin)
    wait = Wait(coming)
    coming_run = run_of(coming_day, history)
    is_near = now >= start or (coming_run is not None and coming_run.state is SnapshotState.COMPLETE)
    if not satisfied and (not is_near or current is None):
        # A missed day is built late, unless the next day's run is about to start or is complete: publishing the missed
        # day would supersede it.
        decision = _build_or_wait(due_day, now, coming, history, timings)
        if isinstance(decision, Build):
            return decision
        wait = Wait(min(wait.until, decision.until))
    if now < start:
        return Wait(min(wait.until, start))
    decision = _build_or_wait(coming_day, now, coming, history, timings)
    return decision if isinstance(decision, Build) else Wait(min(wait.until, decision.until))


def run_of(day: date, history: Sequence[Snapshot]) -> Snapshot | None:
    """Return the day's latest run from a history that is newest first."""
    return next((run for run in history if run.day == day), None)


def _build_or_wait(
    day: date, now: datetime, coming: datetime, history: Sequence[Snapshot], timings: RunTimings
) -> Build | Wait:
    run = run_of(day, history)
    if run is not None and run.state not in UNFINISHED:
        return Wait(coming)
    attempt_at = next_attempt(day, history, timings, now)
    return Build(day) if attempt_at is None else Wait(attempt_at)
