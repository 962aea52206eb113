"""The newest rows of the source, and when they are unusually old."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from daybreak.domain.run_report import NewestRow, RunReport
from daybreak.proof.newest import newest_rows, stale_tables

START = datetime(2026, 11, 1, 4, tzinfo=UTC)


def warned_days(newest_of_day: Sequence[datetime]) -> list[int]:
    """Return the days on which a daily run warns. Each run sees the reports of those before."""
    reports: list[tuple[datetime, RunReport]] = []
    warned = []
    for day, newest in enumerate(newest_of_day):
        as_of = START + timedelta(days=day)
        rows = newest_rows({"outbound_messages": newest}, as_of, reversed(reports))
        report = RunReport(newest_rows=rows)
        reports.append((as_of, report))
        if list(stale_tables(report)):
            warned.append(day)
    return warned


def test_platform_that_stands_still_is_reported_every_day() -> None:
    daily = [START + timedelta(days=day, hours=-2) for day in range(10)]
    assert warned_days([*daily, *[daily[-1]] * 5]) == [10, 11, 12, 13, 14]


def test_quiet_weekends_are_usual() -> None:
    days = [START + timedelta(days=day) for day in range(40)]
    newest = [day - timedelta(hours=2, days=max(0, day.weekday() - 4)) for day in days]
    assert warned_days(newest) == []


def test_few_earlier_runs_are_no_measure() -> None:
    daily = [START + timedelta(days=day, hours=-2) for day in range(5)]
    assert warned_days([*daily, daily[0]]) == []


def test_warning_names_table_age_and_what_to_do() -> None:
    row = NewestRow(datetime(2026, 11, 1, 4, tzinfo=UTC), 7200.0)
    (text,) = stale_tables(RunReport(newest_rows={"outbound_messages": row}))
    assert text == (
        "outbound_messages: the newest row is of 2026-11-01 04:00 UTC. In earlier runs it was at most 2 h old. Check "
        "that the platform or its copy is up to date."
    )
