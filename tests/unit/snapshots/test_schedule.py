"""When a scheduler builds, publishes and waits: whatever the clock, the zone and the runs so far."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.plan import RunPlan
from daybreak.snapshots.schedule import (
    Build,
    Publish,
    Wait,
    decide,
    expected_duration,
    last_due,
    next_publication,
    planned_start,
    publication_of,
)

PLAN = RunPlan()
DAY = timedelta(days=1)
instants = st.datetimes(datetime(2024, 1, 1), datetime(2032, 12, 31), timezones=st.just(UTC))
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
hours = st.times().map(lambda t: t.replace(microsecond=0))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def run(state: SnapshotState, started: datetime, day: date | None = None, **more: object) -> Snapshot:
    values: dict[str, object] = {"as_of": started, "started_at": started, "day": day, "fence": 1, **more}
    return Snapshot(snapshot_id="5cc67fd1-c99f-46e0-b61d-7165cc678dc3", state=state, **values)  # type: ignore[arg-type]


def served(at_instant: datetime, day: date | None = None) -> Snapshot:
    return run(SnapshotState.PUBLISHED, at_instant - timedelta(minutes=30), day, published_at=at_instant)


class World:
    """A database of runs and a clock, driven by decisions: what `Builder` does, without files."""

    def __init__(self, duration: timedelta = timedelta(minutes=5)) -> None:
        self.duration = duration
        self.history: list[Snapshot] = []
        self.current: Snapshot | None = None
        self.publications: list[tuple[date | None, datetime]] = []
        self.builds = 0

    def look(self, now: datetime) -> datetime:
        """Acts once; the clock after it."""
        decision = decide(now, PLAN, self.current, self.history)
        if isinstance(decision, Wait):
            assert decision.until > now, "a scheduler that waits for the past spins"
            return min(decision.until, now + timedelta(minutes=7))
        if isinstance(decision, Build):
            self.builds += 1
            done = run(
                SnapshotState.COMPLETE,
                now,
                decision.day,
                finished_at=now + self.duration,
                report={"seconds": self.duration.total_seconds(), "resources": {}},
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
        published = replace(snapshot, state=SnapshotState.PUBLISHED, published_at=now)
        self._put(published, snapshot)
        self.current = published
        self.publications.append((snapshot.day, now))

    def _put(self, new: Snapshot, old: Snapshot) -> None:
        self.history[self.history.index(old)] = new

    def live(self, now: datetime, span: timedelta) -> datetime:
        end = now + span
        looks = 0
        while now < end:
            now = self.look(now)
            looks += 1
            assert looks < 5000, "the scheduler spins"
        return now


@given(instants, zones, hours)
def test_the_due_day_is_the_same_in_every_zone(now: datetime, zone: timezone, hour: time) -> None:
    due = last_due(now.astimezone(zone), hour)
    assert due == last_due(now, hour)
    assert publication_of(due, hour) <= now < publication_of(due + DAY, hour)
    assert next_publication(now, hour) == publication_of(due + DAY, hour)
    assert publication_of(due, hour).utcoffset() == timedelta(0)


def test_a_naive_clock_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        last_due(datetime(2026, 11, 20), time(4))


@settings(max_examples=15)
@given(instants)
def test_a_week_from_any_instant_has_one_publication_a_day_at_four_sharp(start: datetime) -> None:
    world = World()
    world.live(start, 7 * DAY)
    days = [day for day, _ in world.publications]
    assert len(days) == len(set(days))
    on_time = [instant for _, instant in world.publications[1:]]
    assert all(instant.timetz() == time(4, tzinfo=UTC) for instant in on_time)
    assert len(on_time) in {6, 7}


@settings(max_examples=15)
@given(instants, st.integers(1, 10))
def test_a_clock_that_goes_forward_by_days_gives_one_catch_up(start: datetime, days: int) -> None:
    world = World()
    now = world.live(start, 2 * DAY)
    before = len(world.publications)
    world.live(now + days * DAY, timedelta(hours=2))
    assert len(world.publications) - before <= 2
    assert world.builds - before <= 2
    assert world.current is not None
    assert world.current.published_at is not None
    assert world.current.published_at >= publication_of(last_due(now + days * DAY, PLAN.publish_at), PLAN.publish_at)


@settings(max_examples=15)
@given(instants)
def test_a_clock_that_goes_back_two_days_publishes_nothing_twice(start: datetime) -> None:
    world = World()
    now = world.live(start, 3 * DAY)
    days = [day for day, _ in world.publications]
    builds = world.builds
    world.live(now - 2 * DAY, 2 * DAY - timedelta(hours=2))
    assert world.builds == builds
    assert [day for day, _ in world.publications] == days


def test_the_leap_day_has_its_publication() -> None:
    world = World()
    world.live(at("2028-02-28T05:00:00"), 3 * DAY)
    assert date(2028, 2, 29) in [day for day, _ in world.publications]


def test_a_run_starts_early_by_history_with_margin_and_by_an_hour_without() -> None:
    four = at("2026-11-20T04:00:00")
    assert planned_start(four, [], PLAN) == at("2026-11-20T03:00:00")
    slow = run(SnapshotState.RETIRED, at("2026-11-19T01:00:00"), report={"seconds": 7200.0, "resources": {}})
    assert planned_start(four, [slow], PLAN) == four - timedelta(hours=3) - PLAN.lead_least
    failed = replace(slow, state=SnapshotState.FAILED)
    assert planned_start(four, [failed], PLAN) == at("2026-11-20T03:00:00")


def test_expected_duration_takes_each_resources_slowest_rate_and_newest_size() -> None:
    def report(seconds: float, members_seconds: float, rows: int) -> dict[str, object]:
        return {"seconds": seconds, "resources": {"members": {"seconds": members_seconds, "rows": rows}}}

    newest = run(SnapshotState.PUBLISHED, at("2026-11-20T03:00:00"), report=report(110.0, 100.0, 2_000_000))
    older = run(SnapshotState.RETIRED, at("2026-11-19T03:00:00"), report=report(220.0, 200.0, 1_000_000))
    expected = expected_duration([newest, older])
    assert expected is not None
    # 2 M rows at the older run's rate take 400 s, with a tenth for growth 440, and 20 s for the rest.
    assert expected.total_seconds() == pytest.approx(460.0)


def test_a_trial_with_few_rows_says_nothing_about_how_long_many_take() -> None:
    def report(seconds: float, rows: int) -> dict[str, object]:
        return {"seconds": seconds, "resources": {"members": {"seconds": seconds, "rows": rows}}}

    trial = run(SnapshotState.RETIRED, at("2026-11-19T03:00:00"), report=report(0.5, 10))
    real = run(SnapshotState.PUBLISHED, at("2026-11-20T03:00:00"), report=report(600.0, 20_000_000))
    expected = expected_duration([real, trial])
    assert expected is not None
    # At the trial's rate it would be eleven days.
    assert expected.total_seconds() == pytest.approx(660.0)
    # The same trial alone still says something.
    assert expected_duration([trial]) == timedelta(seconds=0.55)


def test_a_missed_publication_is_made_up_for_at_once() -> None:
    now = at("2026-11-20T09:30:00")
    yesterday = served(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    assert decide(now, PLAN, yesterday, [yesterday]) == Build(date(2026, 11, 20))


def test_a_complete_snapshot_whose_hour_passed_while_everything_was_down_is_published() -> None:
    now = at("2026-11-20T06:00:00")
    waiting = run(SnapshotState.COMPLETE, at("2026-11-20T03:30:00"), date(2026, 11, 20))
    yesterday = served(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    assert decide(now, PLAN, yesterday, [waiting, yesterday]) == Publish(waiting)


def test_a_complete_snapshot_is_not_published_early() -> None:
    waiting = run(SnapshotState.COMPLETE, at("2026-11-20T03:30:00"), date(2026, 11, 20))
    yesterday = served(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    early = at("2026-11-20T03:59:59.999999")
    assert decide(early, PLAN, yesterday, [waiting, yesterday]) == Wait(at("2026-11-20T04:00:00"))
    sharp = at("2026-11-20T04:00:00")
    assert decide(sharp, PLAN, yesterday, [waiting, yesterday]) == Publish(waiting)


def test_a_missed_day_is_not_made_up_for_beside_a_complete_run_that_waits_for_its_hour() -> None:
    long_ago = served(at("2026-11-18T04:00:00"), date(2026, 11, 18))
    waiting = run(SnapshotState.COMPLETE, at("2026-11-20T03:10:00"), date(2026, 11, 20), report={"seconds": 1.0})
    now = at("2026-11-20T03:10:02")
    assert now < planned_start(at("2026-11-20T04:00:00"), [waiting, long_ago], PLAN), "the next start has moved"
    decision = decide(now, PLAN, long_ago, [waiting, long_ago])
    assert isinstance(decision, Wait)
    assert decide(at("2026-11-20T04:00:00"), PLAN, long_ago, [waiting, long_ago]) == Publish(waiting)


def test_a_held_day_is_left_to_the_operator() -> None:
    held = run(SnapshotState.HELD, at("2026-11-20T03:30:00"), date(2026, 11, 20))
    decision = decide(at("2026-11-20T04:00:01"), PLAN, served(at("2026-11-19T04:00:00")), [held])
    assert isinstance(decision, Wait)


def test_a_failed_day_is_tried_again_after_a_pause_that_grows() -> None:
    day = date(2026, 11, 20)
    end = at("2026-11-20T03:10:00")
    failed = run(SnapshotState.FAILED, at("2026-11-20T03:05:00"), day, finished_at=end, report={"code": "source_fault"})
    yesterday = served(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    assert decide(end, PLAN, yesterday, [failed, yesterday]) == Wait(end + timedelta(minutes=5))
    again = end + timedelta(minutes=5)
    assert decide(again, PLAN, yesterday, [failed, yesterday]) == Build(day)
    second = replace(failed, finished_at=again)
    assert decide(again, PLAN, yesterday, [second, failed, yesterday]) == Wait(again + timedelta(minutes=10))


@pytest.mark.parametrize("code", ["run_stopped", None, "run_fenced"])
def test_a_run_that_was_stopped_or_whose_builder_died_is_taken_up_at_once(code: str | None) -> None:
    day = date(2026, 11, 20)
    end = at("2026-11-20T03:10:00")
    report = {} if code is None else {"code": code}
    ended = run(SnapshotState.FAILED, at("2026-11-20T03:05:00"), day, finished_at=end, report=report)
    assert decide(end, PLAN, served(at("2026-11-19T04:00:00")), [ended]) == Build(day)


def test_a_day_that_another_builder_has_is_waited_for() -> None:
    until = at("2026-11-20T03:12:00")
    building = run(SnapshotState.BUILDING, at("2026-11-20T03:05:00"), date(2026, 11, 20), lease_until=until)
    yesterday = served(at("2026-11-19T04:00:00"), date(2026, 11, 19))
    assert decide(at("2026-11-20T03:11:00"), PLAN, yesterday, [building, yesterday]) == Wait(until)
    # Its lease is over and it is silent: whoever looks may claim the day.
    assert decide(at("2026-11-20T03:12:00"), PLAN, yesterday, [building, yesterday]) == Build(date(2026, 11, 20))


def test_a_run_by_hand_after_the_hour_answers_the_day() -> None:
    by_hand = served(at("2026-11-20T08:00:00"))
    decision = decide(at("2026-11-20T09:00:00"), PLAN, by_hand, [by_hand])
    assert decision == Wait(planned_start(at("2026-11-21T04:00:00"), [by_hand], PLAN))


def test_a_newer_snapshot_by_hand_makes_the_days_own_superfluous_and_nothing_spins() -> None:
    world = World()
    now = world.live(at("2026-11-18T05:00:00"), DAY + timedelta(hours=22, minutes=50))
    assert world.history[0].state is SnapshotState.COMPLETE, "today's waits for four o'clock"
    by_hand = run(SnapshotState.COMPLETE, now, None)
    world.history.insert(0, by_hand)
    world.publish(by_hand, now)
    builds = world.builds
    world.live(now, timedelta(hours=3))
    assert world.builds == builds
    assert world.current is not None
    assert world.current.day is None
