"""Freshness of the files at different times of a day."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import pytest

from daybreak.domain.run_report import RunProgress, RunReport
from daybreak.domain.snapshot import PublicationState, Snapshot, SnapshotState
from daybreak.snapshots.freshness import assess_freshness

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


def test_yesterdays_files_are_fresh_before_the_hour() -> None:
    fresh = assess_freshness(YESTERDAYS, [YESTERDAYS], at("03:59:59"), FOUR)
    assert (fresh.late, fresh.reason, fresh.next_expected_at) == (False, None, at("04:00:00"))


def test_publication_has_a_grace_period() -> None:
    assert not assess_freshness(YESTERDAYS, [YESTERDAYS], at("04:01:00"), FOUR).late
    assert assess_freshness(YESTERDAYS, [YESTERDAYS], at("04:01:01"), FOUR).late


def test_next_files_during_publication_are_todays() -> None:
    complete = run(SnapshotState.COMPLETE, TODAY, at("03:30:00"))
    for current, history in ((None, []), (YESTERDAYS, [complete, YESTERDAYS])):
        assert assess_freshness(current, history, at("04:00:00"), FOUR).next_expected_at == at("04:01:00")
    # The prediction made before the hour is unchanged after it.
    progress = RunProgress(share=0.5, expected_end=at("05:20:00"))
    running = run(SnapshotState.BUILDING, TODAY, at("03:30:00"), progress=progress, lease_until=at("04:02:00"))
    for moment in ("03:59:59", "04:00:00", "04:00:30", "04:01:30"):
        assert assess_freshness(YESTERDAYS, [running, YESTERDAYS], at(moment), FOUR).next_expected_at == at("05:20:00")


def test_next_files_after_publication_are_tomorrows() -> None:
    fresh = assess_freshness(TODAYS, [TODAYS, YESTERDAYS], at("04:00:01"), FOUR)
    assert (fresh.late, fresh.next_expected_at) == (False, at("04:00:00") + timedelta(days=1))
    assert fresh.snapshot == TODAYS


@pytest.mark.parametrize(
    ("state", "expected_reason"),
    [
        (SnapshotState.FAILED, "failed to build"),
        (SnapshotState.HELD, "held until an operator"),
        (SnapshotState.DISCARDED, "discarded"),
        (SnapshotState.COMPLETE, "about to be published"),
    ],
)
def test_late_files_have_a_reason(state: SnapshotState, expected_reason: str) -> None:
    todays = run(state, TODAY, at("03:30:00"), failure="password=secret")
    fresh = assess_freshness(YESTERDAYS, [todays, YESTERDAYS], at("05:00:00"), FOUR)
    assert fresh.late
    assert fresh.reason is not None
    assert expected_reason in fresh.reason
    assert "secret" not in fresh.reason, "only operators see the failure"


@pytest.mark.parametrize(
    ("runs", "moment", "expected"),
    [
        ([], "03:00:00", PublicationState.FRESH),
        ([], "05:00:00", PublicationState.LATE),
        ([run(SnapshotState.BUILDING, TODAY, at("04:30:00"))], "05:00:00", PublicationState.LATE),
        ([run(SnapshotState.FAILED, TODAY, at("04:30:00"))], "05:00:00", PublicationState.FAILED),
        ([run(SnapshotState.HELD, TODAY, at("04:30:00"))], "05:00:00", PublicationState.HELD),
        ([run(SnapshotState.HELD, TODAY, at("03:30:00"))], "03:59:00", PublicationState.FRESH),
    ],
)
def test_state_depends_on_the_run_of_the_day(runs: list[Snapshot], moment: str, expected: PublicationState) -> None:
    assert assess_freshness(YESTERDAYS, [*runs, YESTERDAYS], at(moment), FOUR).state is expected


def test_state_without_files_depends_on_a_run() -> None:
    assert assess_freshness(None, [], at("05:00:00"), FOUR).state is PublicationState.UNPUBLISHED
    manual = run(SnapshotState.BUILDING, None, at("04:30:00"))
    assert assess_freshness(None, [manual], at("05:00:00"), FOUR).state is PublicationState.FIRST_RUN
    failed = run(SnapshotState.FAILED, TODAY, at("04:30:00"))
    assert assess_freshness(None, [failed], at("05:00:00"), FOUR).state is PublicationState.FAILED


def test_lateness_counts_from_the_first_missed_publication() -> None:
    assert assess_freshness(YESTERDAYS, [YESTERDAYS], at("05:00:00"), FOUR).late_since == at("04:00:00")
    two_days_later = at("05:00:00") + timedelta(days=2)
    assert assess_freshness(YESTERDAYS, [YESTERDAYS], two_days_later, FOUR).late_since == at("04:00:00")
    assert assess_freshness(TODAYS, [TODAYS], at("05:00:00"), FOUR).late_since is None


def test_failed_day_has_its_next_attempt() -> None:
    failed = run(
        SnapshotState.FAILED, TODAY, at("04:06:00"), report=RunReport(code="source_error"), finished_at=at("04:07:00")
    )
    fresh = assess_freshness(YESTERDAYS, [failed, YESTERDAYS], at("04:08:00"), FOUR)
    assert fresh.next_attempt_at == at("04:12:00")
    assert assess_freshness(YESTERDAYS, [failed, YESTERDAYS], at("04:13:00"), FOUR).next_attempt_at is None


def test_running_run_reports_its_share_and_end() -> None:
    progress = RunProgress(share=0.25, expected_end=at("05:20:00"))
    running = run(SnapshotState.BUILDING, TODAY, at("04:55:00"), progress=progress)
    fresh = assess_freshness(YESTERDAYS, [running, YESTERDAYS], at("05:00:00"), FOUR)
    assert fresh.reason is not None
    assert "25 % done" in fresh.reason
    assert fresh.next_expected_at == at("05:20:00")
    # An expected end that has passed is not used.
    later = assess_freshness(YESTERDAYS, [running, YESTERDAYS], at("05:30:00"), FOUR)
    assert later.next_expected_at == at("04:00:00") + timedelta(days=1)


def test_failed_day_is_expected_after_its_next_attempt() -> None:
    served = replace(YESTERDAYS, report=RunReport(seconds=600.0))
    failed = [
        replace(
            run(SnapshotState.FAILED, TODAY, at(begun)), report=RunReport(code="source_error"), finished_at=at(ended)
        )
        for begun, ended in (("04:17:00", "04:18:00"), ("04:06:00", "04:07:00"))
    ]
    tomorrow = at("04:00:00") + timedelta(days=1)
    # Five minutes after the first failure, ten after the second, and the ten minutes of a run.
    for history, moment, expected in (
        (failed[1:], "04:08:00", at("04:22:00")),
        (failed, "04:20:00", at("04:38:00")),
        (failed, "04:28:00", tomorrow),  # the attempt is overdue: perhaps no builder is running
    ):
        fresh = assess_freshness(served, [*history, served], at(moment), FOUR)
        assert (fresh.late, fresh.next_expected_at) == (True, expected), moment
    assert assess_freshness(YESTERDAYS, [*failed, YESTERDAYS], at("04:20:00"), FOUR).next_expected_at == tomorrow, (
        "no run has finished"
    )
    held = run(SnapshotState.HELD, TODAY, at("04:19:00"))
    assert assess_freshness(served, [held, *failed, served], at("04:20:00"), FOUR).next_expected_at == tomorrow


def test_run_without_estimate_takes_the_usual_time() -> None:
    served = replace(YESTERDAYS, report=RunReport(seconds=600.0))
    running = run(SnapshotState.BUILDING, TODAY, at("04:30:00"))
    assert assess_freshness(served, [running, served], at("04:31:00"), FOUR).next_expected_at == at("04:40:00")
    assert assess_freshness(served, [running, served], at("04:40:00"), FOUR).next_expected_at == at(
        "04:00:00"
    ) + timedelta(days=1)


def test_run_with_a_lapsed_lease_is_not_running() -> None:
    progress = RunProgress(share=0.4, expected_end=at("05:20:00"))
    lapsed = run(SnapshotState.BUILDING, TODAY, at("03:30:00"), progress=progress, lease_until=at("04:30:00"))
    fresh = assess_freshness(YESTERDAYS, [lapsed, YESTERDAYS], at("05:00:00"), FOUR)
    assert fresh.reason is not None
    assert "failed to build" in fresh.reason
    assert fresh.next_expected_at == at("04:00:00") + timedelta(days=1)


def test_no_run_yet_is_a_reason() -> None:
    fresh = assess_freshness(None, [], at("12:00:00"), FOUR)
    assert fresh.late
    assert fresh.reason is not None
    assert "The first run has not started" in fresh.reason


def test_failed_manual_run_is_a_reason() -> None:
    failed = run(SnapshotState.FAILED, None, at("11:00:00"))
    for current, history in ((None, [failed]), (YESTERDAYS, [failed, YESTERDAYS])):
        reason = assess_freshness(current, history, at("12:00:00"), FOUR).reason
        assert reason == "The last run failed. The run for today's files starts as soon as possible."
    held = run(SnapshotState.HELD, None, at("11:00:00"))
    reason = assess_freshness(None, [held, failed], at("12:00:00"), FOUR).reason
    assert reason == "The run for today's files has not started. It starts as soon as possible."


def test_newer_manual_snapshot_is_on_time() -> None:
    manual = run(SnapshotState.PUBLISHED, None, at("03:58:00"), published_at=at("03:58:30"))
    superseded = run(SnapshotState.DISCARDED, TODAY, at("03:30:00"))
    assert not assess_freshness(manual, [superseded, manual], at("05:00:00"), FOUR).late


@pytest.mark.parametrize(
    "follower", [None, run(SnapshotState.PUBLISHED, None, at("03:57:00"), published_at=at("03:58:00"))]
)
def test_run_that_was_published_before_its_hour_is_on_time(follower: Snapshot | None) -> None:
    """An operator accepts a held run, or changes the hour."""
    todays = replace(TODAYS, published_at=at("03:45:00"), state=SnapshotState.RETIRED if follower else TODAYS.state)
    for moment in ("03:59:00", "05:00:00"):
        fresh = assess_freshness(follower or todays, [todays, YESTERDAYS], at(moment), FOUR)
        assert (fresh.late, fresh.next_expected_at) == (False, at("04:00:00") + timedelta(days=1))


def run_for_today(expected_end: datetime) -> Snapshot:
    progress = RunProgress(share=0.4, expected_end=expected_end)
    return run(SnapshotState.BUILDING, TODAY, at("03:30:00"), progress=progress)


def test_late_end_is_predicted_before_the_hour() -> None:
    on_time = assess_freshness(YESTERDAYS, [run_for_today(at("04:00:30")), YESTERDAYS], at("03:50:00"), FOUR)
    assert (on_time.late, on_time.next_expected_at) == (False, at("04:00:00"))
    predicted = assess_freshness(YESTERDAYS, [run_for_today(at("04:25:00")), YESTERDAYS], at("03:50:00"), FOUR)
    assert (predicted.late, predicted.next_expected_at) == (False, at("04:25:00"))


def test_run_for_the_next_day_leaves_this_day_late() -> None:
    held = run(SnapshotState.HELD, TODAY - timedelta(days=1), at("03:30:00") - timedelta(days=1))
    before = replace(YESTERDAYS, published_at=at("04:00:00") - timedelta(days=2))
    fresh = assess_freshness(before, [run_for_today(at("03:55:00")), held], at("03:50:00"), FOUR)
    assert fresh.late
    assert fresh.reason is not None
    assert "held until" in fresh.reason
    assert fresh.next_expected_at == at("04:00:00")
