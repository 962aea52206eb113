"""Scheduling: decisions to build, publish or wait, for different clocks, time zones and histories."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.domain.run_report import ResourceFigures, RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.schedule import (
    Build,
    Decision,
    Publish,
    RunTimings,
    Wait,
    decide,
    expected_duration,
    last_due,
    next_publication,
    planned_start,
    publication_of,
)
from tests.configured import DEFAULTS

SNAPSHOT = DEFAULTS.snapshot
DAY = timedelta(days=1)
instants = st.datetimes(datetime(2024, 1, 1), datetime(2032, 12, 31), timezones=st.just(UTC))
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
hours = st.times().map(lambda t: t.replace(microsecond=0))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def run(state: SnapshotState, started: datetime, day: date | None = None, **more: object) -> Snapshot:
    values: dict[str, object] = {"as_of": started, "started_at": started, "day": day, "fence": 1, **more}
    return Snapshot(snapshot_id="5cc67fd1-c99f-46e0-b61d-7165cc678dc3", state=state, **values)  # type: ignore[arg-type]


def published(at_instant: datetime, day: date | None = None) -> Snapshot:
    return run(SnapshotState.PUBLISHED, at_instant - timedelta(minutes=30), day, published_at=at_instant)


def decide_at(now: datetime, current: Snapshot | None, history: Sequence[Snapshot]) -> Decision:
    return decide(now, SNAPSHOT, RunTimings(), current, history)


class World:
    """A builder without files: performs the decisions of the schedule on a history of runs."""

    def __init__(self, duration: timedelta = timedelta(minutes=5)) -> None:
        self.duration = duration
        self.history: list[Snapshot] = []
        self.current: Snapshot | None = None
        self.publications: list[tuple[date | None, datetime]] = []
        self.builds = 0

    def step(self, now: datetime) -> datetime:
        """Perform one decision. Return the time afterwards."""
        decision = decide_at(now, self.current, self.history)
        if isinstance(decision, Wait):
            assert decision.until > now, "waiting for a past instant is a busy loop"
            return min(decision.until, now + timedelta(minutes=7))
        if isinstance(decision, Build):
            self.builds += 1
            done = run(
                SnapshotState.COMPLETE,
                now,
                decision.day,
                finished_at=now + self.duration,
                report=RunReport(seconds=self.duration.total_seconds()),
            )
            assert all(r.day != decision.day or r.state is SnapshotState.FAILED for r in self.history)
            self.history.insert(0, done)
            return now + self.duration
        self.publish(decision.snapshot, now)
        return now

    def publish(self, snapshot: Snapshot, now: datetime) -> None:
        if self.current is not None and self.current.as_of > snapshot.as_of:
            self._put(replace(snapshot, state=SnapshotState.DISCARDED), snapshot)
            return
        done = replace(snapshot, state=SnapshotState.PUBLISHED, published_at=now)
        self._put(done, snapshot)
        self.current = done
        self.publications.append((snapshot.day, now))

    def _put(self, new: Snapshot, old: Snapshot) -> None:
        self.history[self.history.index(old)] = new

    def live(self, now: datetime, span: timedelta) -> datetime:
        end = now + span
        steps = 0
        while now < end:
            now = self.step(now)
            steps += 1
            assert steps < 5000, "busy loop"
        return now


@given(instants, zones, hours)
def test_due_day_is_the_same_in_every_zone(now: datetime, zone: timezone, hour: time) -> None:
    due = last_due(now.astimezone(zone), hour)
    assert due == last_due(now, hour)
    assert publication_of(due, hour) <= now < publication_of(due + DAY, hour)
    assert next_publication(now, hour) == publication_of(due + DAY, hour)
    assert publication_of(due, hour).utcoffset() == timedelta(0)


def test_naive_clock_is_rejected() -> None:
    with pytest.raises(ValueError, match="time zone"):
        last_due(datetime(2026, 11, 20), time(4))


def leaves_time_for_two_runs(start: datetime) -> bool:
    """Return whether a missed day and the coming one can both be built before the next publication."""
    return next_publication(start, SNAPSHOT.publish_at) - start > timedelta(minutes=15)


@settings(max_examples=15)
@given(instants.filter(leaves_time_for_two_runs))
def test_each_day_has_one_publication_at_four(start: datetime) -> None:
    world = World()
    world.live(start, 7 * DAY)
    days = [day for day, _ in world.publications]
    assert len(days) == len(set(days))
    on_time = [instant for _, instant in world.publications[1:]]
    assert all(instant.timetz() == time(4, tzinfo=UTC) for instant in on_time)
    assert len(on_time) in {6, 7}


@settings(max_examples=15)
@given(instants, st.integers(1, 10))
def test_clock_step_forward_gives_one_catch_up(start: datetime, days: int) -> None:
    world = World()
    now = world.live(start, 2 * DAY)
    publications, builds = len(world.publications), world.builds
    world.live(now + days * DAY, timedelta(hours=2))
    assert len(world.publications) - publications <= 2
    assert world.builds - builds <= 2
    assert world.current is not None
    assert world.current.published_at is not None
    publish_at = SNAPSHOT.publish_at
    assert world.current.published_at >= publication_of(last_due(now + days * DAY, publish_at), publish_at)


@settings(max_examples=15)
@given(instants)
def test_clock_step_back_publishes_nothing_twice(start: datetime) -> None:
    world = World()
    now = world.live(start, 3 * DAY)
    days = [day for day, _ in world.publications]
    builds = world.builds
    world.live(now - 2 * DAY, 2 * DAY - timedelta(hours=2))
    assert world.builds == builds
    assert [day for day, _ in world.publications] == days


def test_leap_day_has_a_publication() -> None:
    world = World()
    world.live(at("2028-02-28T05:00:00"), 3 * DAY)
    assert date(2028, 2, 29) in [day for day, _ in world.publications]


def test_start_depends_on_earlier_durations() -> None:
    four = at("2026-11-20T04:00:00")
    assert planned_start(four, [], SNAPSHOT.margin) == at("2026-11-20T03:00:00")
    slow = run(SnapshotState.RETIRED, at("2026-11-19T01:00:00"), report=RunReport(seconds=7200.0))
    assert planned_start(four, [slow], SNAPSHOT.margin) == four - timedelta(hours=3) - SNAPSHOT.margin
    failed = replace(slow, state=SnapshotState.FAILED)
    assert planned_start(four, [failed], SNAPSHOT.margin) == at("2026-11-20T03:00:00")


def test_duration_is_slowest_rate_times_latest_rows() -> None:
    def report(seconds: float, members_seconds: float, rows: int) -> RunReport:
        return RunReport(seconds=seconds, resources={"members": ResourceFigures(seconds=members_seconds, rows=rows)})

    newest = run(SnapshotState.PUBLISHED, at("2026-11-20T03:00:00"), report=report(110.0, 100.0, 2_000_000))
    older = run(SnapshotState.RETIRED, at("2026-11-19T03:00:00"), report=report(220.0, 200.0, 1_000_000))
    expected = expected_duration([newest, older])
    assert expected is not None
    # 2 M rows at the older run's rate take 400 s, with a tenth for growth 440, and 20 s of overhead.
    assert expected.total_seconds() == pytest.approx(460.0)


def test_runs_with_few_rows_are_not_used_for_rates() -> None:
    def report(seconds: float, rows: int) -> RunReport:
        return RunReport(seconds=seconds, resources={"members": ResourceFigures(seconds=seconds, rows=rows)})

    trial = run(SnapshotState.RETIRED, at("2026-11-19T03:00:00"), report=report(0.5, 10))
    real = run(SnapshotState.PUBLISHED, at("2026-11-20T03:00:00"), report=report(600.0, 20_000_000))
    expected = expected_duration([real, trial])
    assert expected is not None
    # The trial's rate would give eleven days.
    assert expected.total_seconds() == pytest.approx(660.0)
    # Without another run the trial is used.
    assert expected_duration([trial]) == timedelta(seconds=0.55)


def test_missed_publication_is_built_immediately() -> None:
    now = at("2026-11-20T09:30:00")
    yesterday = published(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    assert decide_at(now, yesterday, [yesterday]) == Build(date(2026, 11, 20))


def test_complete_snapshot_is_published_after_an_outage() -> None:
    now = at("2026-11-20T06:00:00")
    waiting = run(SnapshotState.COMPLETE, at("2026-11-20T03:30:00"), date(2026, 11, 20))
    yesterday = published(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    assert decide_at(now, yesterday, [waiting, yesterday]) == Publish(waiting)


def test_complete_snapshot_is_not_published_early() -> None:
    waiting = run(SnapshotState.COMPLETE, at("2026-11-20T03:30:00"), date(2026, 11, 20))
    yesterday = published(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    early = at("2026-11-20T03:59:59.999999")
    assert decide_at(early, yesterday, [waiting, yesterday]) == Wait(at("2026-11-20T04:00:00"))
    on_time = at("2026-11-20T04:00:00")
    assert decide_at(on_time, yesterday, [waiting, yesterday]) == Publish(waiting)


def test_missed_day_does_not_supersede_a_complete_run() -> None:
    long_ago = published(at("2026-11-18T04:00:00"), date(2026, 11, 18))
    waiting = run(SnapshotState.COMPLETE, at("2026-11-20T03:10:00"), date(2026, 11, 20), report=RunReport(seconds=1.0))
    now = at("2026-11-20T03:10:02")
    next_start = planned_start(at("2026-11-20T04:00:00"), [waiting, long_ago], SNAPSHOT.margin)
    assert now < next_start, "the next start has moved"
    decision = decide_at(now, long_ago, [waiting, long_ago])
    assert isinstance(decision, Wait)
    assert decide_at(at("2026-11-20T04:00:00"), long_ago, [waiting, long_ago]) == Publish(waiting)


def test_held_day_waits_for_the_operator() -> None:
    held = run(SnapshotState.HELD, at("2026-11-20T03:30:00"), date(2026, 11, 20))
    decision = decide_at(at("2026-11-20T04:00:01"), published(at("2026-11-19T04:00:00")), [held])
    assert isinstance(decision, Wait)


def test_failed_day_is_retried_with_backoff() -> None:
    day = date(2026, 11, 20)
    end = at("2026-11-20T03:10:00")
    failed = run(
        SnapshotState.FAILED, at("2026-11-20T03:05:00"), day, finished_at=end, report=RunReport(code="source_fault")
    )
    yesterday = published(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    assert decide_at(end, yesterday, [failed, yesterday]) == Wait(end + timedelta(minutes=5))
    again = end + timedelta(minutes=5)
    assert decide_at(again, yesterday, [failed, yesterday]) == Build(day)
    second = replace(failed, finished_at=again)
    assert decide_at(again, yesterday, [second, failed, yesterday]) == Wait(again + timedelta(minutes=10))


@pytest.mark.parametrize("code", ["run_stopped", None, "run_fenced"])
def test_interrupted_run_is_retried_immediately(code: str | None) -> None:
    day = date(2026, 11, 20)
    end = at("2026-11-20T03:10:00")
    ended = run(SnapshotState.FAILED, at("2026-11-20T03:05:00"), day, finished_at=end, report=RunReport(code=code))
    assert decide_at(end, published(at("2026-11-19T04:00:00")), [ended]) == Build(day)


def test_failure_from_before_a_step_of_the_clock_delays_nothing() -> None:
    day, end = date(2026, 11, 20), at("2026-11-20T03:40:00")
    report = RunReport(code="source_fault")
    failed = run(SnapshotState.FAILED, at("2026-11-20T03:35:00"), day, finished_at=end, report=report)
    yesterday = published(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    # Clocks of two builders differ by less.
    for now in (end, end - timedelta(minutes=10)):
        assert decide_at(now, yesterday, [failed, yesterday]) == Wait(end + timedelta(minutes=5))
    assert decide_at(end - timedelta(minutes=11), yesterday, [failed, yesterday]) == Build(day)


def test_builder_waits_for_the_day_of_another_builder() -> None:
    until = at("2026-11-20T03:12:00")
    building = run(SnapshotState.BUILDING, at("2026-11-20T03:05:00"), date(2026, 11, 20), lease_until=until)
    yesterday = published(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    assert decide_at(at("2026-11-20T03:11:00"), yesterday, [building, yesterday]) == Wait(until)
    # Its lease has lapsed: any builder may claim the day.
    assert decide_at(at("2026-11-20T03:12:00"), yesterday, [building, yesterday]) == Build(date(2026, 11, 20))


def test_manual_run_after_the_hour_satisfies_the_day() -> None:
    manual = published(at("2026-11-20T08:00:00"))
    decision = decide_at(at("2026-11-20T09:00:00"), manual, [manual])
    assert decision == Wait(planned_start(at("2026-11-21T04:00:00"), [manual], SNAPSHOT.margin))


def test_newer_manual_snapshot_supersedes_that_of_the_day() -> None:
    world = World()
    now = world.live(at("2026-11-18T05:00:00"), DAY + timedelta(hours=22, minutes=50))
    assert world.history[0].state is SnapshotState.COMPLETE, "today's snapshot waits for four o'clock"
    manual = run(SnapshotState.COMPLETE, now, None)
    world.history.insert(0, manual)
    world.publish(manual, now)
    builds = world.builds
    world.live(now, timedelta(hours=3))
    assert world.builds == builds
    assert world.current is not None
    assert world.current.day is None
