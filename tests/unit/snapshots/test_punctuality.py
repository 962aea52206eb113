"""Punctuality of past publications."""

from datetime import UTC, date, datetime, time, timedelta

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.punctuality import punctuality

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
DUE = NOW.replace(hour=4)
FOUR = time(4)
DAY = timedelta(days=1)


def published(at: datetime, as_of: datetime | None = None, day: date | None = None) -> Snapshot:
    as_of = as_of or at - timedelta(minutes=48)
    return Snapshot("s", SnapshotState.RETIRED, as_of, as_of, day, published_at=at)


def test_publication_at_its_hour_is_on_time() -> None:
    (today,) = punctuality([published(DUE), published(DUE - DAY)], NOW, FOUR, 1)
    assert (today.day, today.on_time, today.lateness) == (DUE.date(), True, timedelta())


def test_run_that_was_published_before_its_hour_is_on_time() -> None:
    accepted = published(DUE - timedelta(minutes=10), day=DUE.date())
    (today,) = punctuality([published(DUE - DAY), accepted], NOW, FOUR, 1)
    assert (today.published_at, today.on_time, today.lateness) == (accepted.published_at, True, timedelta())


def test_late_publication_has_its_lateness() -> None:
    found = punctuality([published(DUE - DAY), published(DUE + timedelta(hours=2))], NOW, FOUR, 2)
    assert [(each.on_time, each.lateness) for each in found] == [(True, timedelta()), (False, timedelta(hours=2))]


def test_missing_publication_is_late_until_now() -> None:
    (_, today) = punctuality([published(DUE - DAY)], NOW, FOUR, 2)
    assert (today.published_at, today.lateness, today.on_time) == (None, timedelta(hours=8), False)


def test_later_publication_ends_a_missed_day() -> None:
    # Yesterday's files were never published; today's satisfy both days.
    found = punctuality([published(DUE - 2 * DAY), published(DUE)], NOW, FOUR, 3)
    assert [each.lateness for each in found] == [timedelta(), DAY, timedelta()]


def test_old_data_satisfies_no_day() -> None:
    stale = published(DUE + timedelta(hours=1), as_of=DUE - 2 * DAY)
    (*_, today) = punctuality([published(DUE - DAY), stale], NOW, FOUR, 2)
    assert today.published_at is None


def test_days_before_the_first_publication_are_unknown() -> None:
    found = punctuality([published(DUE)], NOW, FOUR, 3)
    assert [each.lateness for each in found] == [None, None, timedelta()]
    assert [each.lateness for each in punctuality([], NOW, FOUR, 2)] == [None, None]


def test_day_of_the_installation_is_not_judged() -> None:
    first = published(DUE - DAY + timedelta(hours=6))
    found = punctuality([first], NOW, FOUR, 3)
    assert [(each.published_at, each.lateness) for each in found] == [
        (None, None),
        (first.published_at, None),
        (None, timedelta(hours=8)),
    ]
