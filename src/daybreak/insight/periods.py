"""Periods of whole UTC days, and the days, weeks or months that charts show of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Self

DEFAULT_RANGE = "30d"
RANGES: Mapping[str, str] = {"7d": "7 days", "30d": "30 days", "90d": "90 days", "12m": "12 months", "all": "All"}
"""Label of each range by its name in URLs."""

_EN_DASH = "\N{EN DASH}"
_DAYS = {"7d": 7, "30d": 30, "90d": 90}
_MAXIMUM_DAYS_BY_DAY = 92
_MAXIMUM_DAYS_BY_WEEK = 2 * 366
_MAXIMUM_DAYS_BY_MONTH = 50 * 366


@dataclass(frozen=True, slots=True)
class Bucket:
    """Part of a period: a day, week, month or year. `first` and `last` are in the period. `label` names it."""

    first: date
    last: date
    label: str


@dataclass(frozen=True, slots=True)
class Period:
    """UTC days from `first` to `last`, both included."""

    first: date
    last: date

    @classmethod
    def of_range(cls, name: str, as_of: datetime, first_day: date) -> Self:
        """Return the period of a range. It ends with the last day that is complete at `as_of`.

        `all` begins with `first_day` and includes the incomplete day of `as_of`, so that no row is left out.
        """
        if name == "all":
            return cls(min(first_day, as_of.date()), as_of.date())
        last = as_of.date() - timedelta(days=1)
        if name == "12m":
            return cls(_year_before(last) + timedelta(days=1), last)
        return cls(last - timedelta(days=_DAYS[name] - 1), last)

    @property
    def length(self) -> int:
        return (self.last - self.first).days + 1

    def previous(self) -> Self | None:
        """Return the period of equal length that ends before this one. None before the first representable day."""
        try:
            return type(self)(self.first - timedelta(days=self.length), self.first - timedelta(days=1))
        except OverflowError:
            return None

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last

    @property
    def parameters(self) -> Mapping[str, object]:
        """The first and the last instant as `$start` and `$last` of a query."""
        return {"start": datetime.combine(self.first, time.min), "last": datetime.combine(self.last, time.max)}

    @property
    def unit(self) -> str:
        """`day`, `week`, `month` or `year`: what the buckets are."""
        if self.length <= _MAXIMUM_DAYS_BY_DAY:
            return "day"
        if self.length <= _MAXIMUM_DAYS_BY_WEEK:
            return "week"
        return "month" if self.length <= _MAXIMUM_DAYS_BY_MONTH else "year"

    def buckets(self) -> list[Bucket]:
        """Return the buckets, oldest first. Weeks begin on Monday; the first and the last bucket may be incomplete."""
        last_of, label_of = _UNITS[self.unit]
        buckets, first = [], self.first
        while True:
            last = min(last_of(first), self.last)
            buckets.append(Bucket(first, last, label_of(first, last)))
            if last == self.last:
                return buckets
            first = last + timedelta(days=1)


def _year_before(day: date) -> date:
    try:
        return day.replace(year=day.year - 1)
    except ValueError:  # 29 February
        return day.replace(year=day.year - 1, day=28)


def _month_end(day: date) -> date:
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


def _day_label(day: date) -> str:
    return f"{day.day} {day:%b %Y}"


def _week_label(first: date, last: date) -> str:
    if first == last:
        return _day_label(first)
    if first.month == last.month:
        return f"{first.day}{_EN_DASH}{last.day} {last:%b %Y}"
    year = f" {first.year}" if first.year != last.year else ""
    return f"{first.day} {first:%b}{year} {_EN_DASH} {last.day} {last:%b %Y}"


_UNITS: Mapping[str, tuple[Callable[[date], date], Callable[[date, date], str]]] = {
    "day": (lambda day: day, lambda first, _: _day_label(first)),
    "week": (lambda day: day + timedelta(days=6 - day.weekday()), _week_label),
    "month": (_month_end, lambda first, _: f"{first:%b %Y}"),
    "year": (lambda day: day.replace(month=12, day=31), lambda first, _: f"{first:%Y}"),
}
