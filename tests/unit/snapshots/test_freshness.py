"""What is said about how fresh the files are, at any moment of a day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import pytest

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.freshness import judge

FOUR = time(4)
TODAY = date(2026, 11, 20)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-20T{text}").replace(tzinfo=UTC)


def run(state: SnapshotState, day: date | None, started: datetime, **more: object) -> Snapshot:
    values: dict[str, object] = {"as_of": started, "started_at": started, "day": day, **more}
    return Snapshot(snapshot_id="5cc67fd1-c99f-46e0-b61d-7165cc678dc3", state=state, **values)  # type: ignore[arg-type]


YESTERDAYS = run(
    SnapshotState.PUBLISHED, TODAY - timedelta(days=1), at("03:30:00") - timedelta(days=1),
    published_at=at("04:00:00") - timedelta(days=1),
)  # fmt: skip
TODAYS = run(SnapshotState.PUBLISHED, TODAY, at("03:30:00"), published_at=at("04:00:00"))


def test_before_the_hour_yesterdays_files_are_fresh() -> None:
    fresh = judge(YESTERDAYS, [YESTERDAYS], at("03:59:59"), FOUR)
    assert (fresh.late, fresh.reason, fresh.next_expected_at) == (False, None, at("04:00:00"))


def test_the_publication_itself_has_a_moment() -> None:
    assert not judge(YESTERDAYS, [YESTERDAYS], at("04:01:00"), FOUR).late
    assert judge(YESTERDAYS, [YESTERDAYS], at("04:01:01"), FOUR).late


def test_who_comes_in_that_moment_is_not_sent_away_for_a_day() -> None:
    complete = run(SnapshotState.COMPLETE, TODAY, at("03:30:00"))
    for current, history in ((None, []), (YESTERDAYS, [complete, YESTERDAYS])):
        assert judge(current, history, at("04:00:00"), FOUR).next_expected_at == at("04:01:00")
    # What was foretold before the hour is still true after it.
    progress = {"share": 0.5, "expected_end": at("05:20:00").isoformat()}
    running = run(SnapshotState.BUILDING, TODAY, at("03:30:00"), progress=progress, lease_until=at("04:02:00"))
    for moment in ("03:59:59", "04:00:00", "04:00:30", "04:01:30"):
        assert judge(YESTERDAYS, [running, YESTERDAYS], at(moment), FOUR).next_expected_at == at("05:20:00")


def test_after_publication_the_next_ones_are_tomorrows() -> None:
    fresh = judge(TODAYS, [TODAYS, YESTERDAYS], at("04:00:01"), FOUR)
    assert (fresh.late, fresh.next_expected_at) == (False, at("04:00:00") + timedelta(days=1))
    assert fresh.snapshot == TODAYS


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (SnapshotState.FAILED, "failed; it is tried again"),
        (SnapshotState.HELD, "held back until an operator"),
        (SnapshotState.DISCARDED, "discarded"),
        (SnapshotState.COMPLETE, "about to be published"),
    ],
)
def test_lateness_says_why(state: SnapshotState, words: str) -> None:
    todays = run(state, TODAY, at("03:30:00"), failure="password=secret")
    fresh = judge(YESTERDAYS, [todays, YESTERDAYS], at("05:00:00"), FOUR)
    assert fresh.late
    assert fresh.reason is not None
    assert words in fresh.reason
    assert "secret" not in fresh.reason, "what failed is for the operator"


def test_a_run_under_way_gives_its_share_and_the_end_it_expects() -> None:
    progress = {"share": 0.25, "expected_end": at("05:20:00").isoformat()}
    running = run(SnapshotState.BUILDING, TODAY, at("04:55:00"), progress=progress)
    fresh = judge(YESTERDAYS, [running, YESTERDAYS], at("05:00:00"), FOUR)
    assert fresh.reason is not None
    assert "25% done" in fresh.reason
    assert fresh.next_expected_at == at("05:20:00")
    # An end that lies behind is nothing to promise.
    later = judge(YESTERDAYS, [running, YESTERDAYS], at("05:30:00"), FOUR)
    assert later.next_expected_at == at("04:00:00") + timedelta(days=1)


def test_a_day_that_failed_is_expected_at_the_end_of_its_next_try() -> None:
    served = replace(YESTERDAYS, report={"seconds": 600.0})
    failed = [
        replace(run(SnapshotState.FAILED, TODAY, at(begun)), report={"code": "source_error"}, finished_at=at(ended))
        for begun, ended in (("04:17:00", "04:18:00"), ("04:06:00", "04:07:00"))
    ]
    tomorrow = at("04:00:00") + timedelta(days=1)
    # Five minutes after the first time, ten after the second; and the ten that a run takes.
    for history, moment, expected in (
        (failed[1:], "04:08:00", at("04:22:00")),
        (failed, "04:20:00", at("04:38:00")),
        (failed, "04:28:00", tomorrow),  # it should have begun: who knows whether anybody is there to do it
    ):
        fresh = judge(served, [*history, served], at(moment), FOUR)
        assert (fresh.late, fresh.next_expected_at) == (True, expected), moment
    assert judge(YESTERDAYS, [*failed, YESTERDAYS], at("04:20:00"), FOUR).next_expected_at == tomorrow, "none has ended"
    held = run(SnapshotState.HELD, TODAY, at("04:19:00"))
    assert judge(served, [held, *failed, served], at("04:20:00"), FOUR).next_expected_at == tomorrow


def test_a_run_that_cannot_tell_its_end_yet_is_expected_to_take_as_long_as_runs_do() -> None:
    served = replace(YESTERDAYS, report={"seconds": 600.0})
    running = run(SnapshotState.BUILDING, TODAY, at("04:30:00"))
    assert judge(served, [running, served], at("04:31:00"), FOUR).next_expected_at == at("04:40:00")
    assert judge(served, [running, served], at("04:40:00"), FOUR).next_expected_at == at("04:00:00") + timedelta(days=1)


def test_a_run_whose_builder_fell_silent_is_not_under_way() -> None:
    progress = {"share": 0.4, "expected_end": at("05:20:00").isoformat()}
    silent = run(SnapshotState.BUILDING, TODAY, at("03:30:00"), progress=progress, lease_until=at("04:30:00"))
    fresh = judge(YESTERDAYS, [silent, YESTERDAYS], at("05:00:00"), FOUR)
    assert fresh.reason is not None
    assert "failed; it is tried again" in fresh.reason
    assert fresh.next_expected_at == at("04:00:00") + timedelta(days=1)


def test_without_any_run_it_says_so() -> None:
    fresh = judge(None, [], at("12:00:00"), FOUR)
    assert fresh.late
    assert fresh.reason is not None
    assert "first snapshot has not been made" in fresh.reason


def test_a_newer_snapshot_by_hand_is_no_lateness() -> None:
    by_hand = run(SnapshotState.PUBLISHED, None, at("03:58:00"), published_at=at("03:58:30"))
    superfluous = run(SnapshotState.DISCARDED, TODAY, at("03:30:00"))
    assert not judge(by_hand, [superfluous, by_hand], at("05:00:00"), FOUR).late


def making_tomorrows(expected_end: datetime) -> Snapshot:
    progress = {"share": 0.4, "expected_end": expected_end.isoformat()}
    return run(SnapshotState.BUILDING, TODAY, at("03:30:00"), progress=progress)


def test_a_run_that_will_end_too_late_is_told_of_before_its_hour() -> None:
    on_time = judge(YESTERDAYS, [making_tomorrows(at("04:00:30")), YESTERDAYS], at("03:50:00"), FOUR)
    assert (on_time.late, on_time.next_expected_at) == (False, at("04:00:00"))
    foretold = judge(YESTERDAYS, [making_tomorrows(at("04:25:00")), YESTERDAYS], at("03:50:00"), FOUR)
    assert (foretold.late, foretold.next_expected_at) == (False, at("04:25:00"))


def test_the_next_days_run_is_no_reason_for_this_days_lateness() -> None:
    held = run(SnapshotState.HELD, TODAY - timedelta(days=1), at("03:30:00") - timedelta(days=1))
    before = replace(YESTERDAYS, published_at=at("04:00:00") - timedelta(days=2))
    fresh = judge(before, [making_tomorrows(at("03:55:00")), held], at("03:50:00"), FOUR)
    assert fresh.late
    assert fresh.reason is not None
    assert "held back" in fresh.reason
    assert fresh.next_expected_at == at("04:00:00")
