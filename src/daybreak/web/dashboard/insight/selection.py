"""Range and comparison that the query of an Insight page names."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Self, TypeVar

from daybreak.insight.periods import DEFAULT_RANGE, RANGES, Bucket, Period

T = TypeVar("T")
_WITHOUT_COMPARISON = "none"
# Block and column of the sorted table, and the direction.
_SORT = re.compile(r"[a-z-]{1,20}\.\d{1,2}(-up)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class FirstDays:
    """First day with messages or campaigns, and first day with a change of a Member."""

    messages: date
    members: date


@dataclass(frozen=True, slots=True)
class Selection:
    """The period of a page, whether it is compared with the period before, and the sorted table.

    A period before that begins before the data is not compared, because it would seem almost empty.
    """

    range_name: str
    period: Period
    compares: bool
    first_days: FirstDays
    sort: str = ""

    @property
    def messages_before(self) -> Period | None:
        """The period before, for messages and campaigns. None without comparison."""
        return self._before(self.first_days.messages)

    @property
    def members_before(self) -> Period | None:
        """The period before, for Members. None without comparison."""
        return self._before(self.first_days.members)

    @property
    def query(self) -> dict[str, str]:
        return {
            "range": self.range_name, "compare": "" if self.compares else _WITHOUT_COMPARISON, "sort": self.sort
        }  # fmt: skip

    def _before(self, first_day: date) -> Period | None:
        before = self.period.previous() if self.compares and self.range_name != "all" else None
        return before if before is not None and before.first >= first_day else None


def select(query: Mapping[str, str], as_of: datetime, first_days: FirstDays) -> Selection:
    """Return the selection of query parameters. An unknown range is the default."""
    requested = query.get("range", DEFAULT_RANGE)
    name = requested if requested in RANGES else DEFAULT_RANGE
    period = Period.of_range(name, as_of, min(first_days.messages, first_days.members))
    sort = query.get("sort", "")
    return Selection(
        name, period, query.get("compare") != _WITHOUT_COMPARISON, first_days, sort if _SORT.fullmatch(sort) else ""
    )


@dataclass(frozen=True, slots=True)
class BucketFinder:
    """Buckets of a period, and the bucket of a day."""

    period: Period
    buckets: tuple[Bucket, ...]

    @classmethod
    def of(cls, period: Period) -> Self:
        return cls(period, tuple(period.buckets()))

    def find(self, day: date) -> int | None:
        """Return the index of the bucket that contains a day of the period."""
        if day not in self.period:
            return None
        return bisect_right(self.buckets, day, key=lambda bucket: bucket.first) - 1

    def group(self, values: Mapping[date, T]) -> list[list[T]]:
        """Return the values of each bucket."""
        grouped: list[list[T]] = [[] for _ in self.buckets]
        for day, value in values.items():
            at = self.find(day)
            if at is not None:
                grouped[at].append(value)
        return grouped

    def find_previous(self, day: date) -> int | None:
        """Return the index of the bucket that a day of the period before is compared with."""
        before = self.period.previous()
        if before is None or day not in before:
            return None
        return self.find(day + timedelta(days=self.period.length))
