"""Periods and their buckets."""

from datetime import UTC, date, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.insight.periods import RANGES, Period

AS_OF = datetime(2026, 11, 24, 3, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "first", "last", "unit"),
    [
        ("7d", date(2026, 11, 17), date(2026, 11, 23), "day"),
        ("30d", date(2026, 10, 25), date(2026, 11, 23), "day"),
        ("90d", date(2026, 8, 26), date(2026, 11, 23), "day"),
        ("12m", date(2025, 11, 24), date(2026, 11, 23), "week"),
        ("all", date(2024, 6, 1), date(2026, 11, 24), "month"),
    ],
)
def test_ranges_end_with_the_last_complete_day(name: str, first: date, last: date, unit: str) -> None:
    period = Period.of_range(name, AS_OF, date(2024, 6, 1))
    assert (period.first, period.last, period.unit) == (first, last, unit)


def test_twelve_months_after_a_leap_day() -> None:
    period = Period.of_range("12m", datetime(2028, 3, 1, 4, tzinfo=UTC), date(2020, 1, 1))
    assert (period.first, period.last) == (date(2027, 3, 1), date(2028, 2, 29))


def test_previous_period_has_equal_length() -> None:
    period = Period(date(2026, 11, 17), date(2026, 11, 23))
    assert period.previous() == Period(date(2026, 11, 10), date(2026, 11, 16))
    assert Period(date(1, 1, 2), date(2026, 1, 1)).previous() is None


def test_labels_name_the_days() -> None:
    assert [bucket.label for bucket in Period(date(2026, 11, 22), date(2026, 11, 23)).buckets()] == [
        "22 Nov 2026",
        "23 Nov 2026",
    ]
    weeks = Period(date(2025, 11, 30), date(2026, 11, 23)).buckets()
    assert [week.label for week in (weeks[0], weeks[1], weeks[5], weeks[9], weeks[-1])] == [
        "30 Nov 2025",
        "1\N{EN DASH}7 Dec 2025",
        "29 Dec 2025 \N{EN DASH} 4 Jan 2026",
        "26 Jan \N{EN DASH} 1 Feb 2026",
        "23 Nov 2026",
    ]
    assert [month.label for month in Period(date(2020, 12, 31), date(2023, 1, 3)).buckets()][::24] == [
        "Dec 2020",
        "Dec 2022",
    ]
    assert [year.label for year in Period(date(1970, 1, 1), date(2026, 1, 1)).buckets()][:2] == ["1970", "1971"]


@given(st.dates(), st.sampled_from(sorted(RANGES)), st.datetimes(datetime(2000, 1, 1), timezones=st.just(UTC)))
def test_buckets_cover_every_day_once(first_day: date, name: str, as_of: datetime) -> None:
    period = Period.of_range(name, as_of, first_day)
    buckets = period.buckets()
    assert (buckets[0].first, buckets[-1].last) == (period.first, period.last)
    assert all((after.first - before.last).days == 1 for before, after in pairwise(buckets))
    assert all(bucket.first <= bucket.last for bucket in buckets)
