"""Strip of past publications: one cell per day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daybreak.snapshots.punctuality import DayPublication
from daybreak.web.dashboard.formatting import format_date, format_duration


@dataclass(frozen=True, slots=True)
class DayView:
    """One day. `kind` is `on-time`, `late-day`, `missing` or `unknown`; `text` says the same in words."""

    kind: str
    text: str


def day_views(days: Sequence[DayPublication]) -> list[DayView]:
    """Return the cells of a strip, oldest first."""
    return [DayView(*_kind_and_text(each)) for each in days]


def _kind_and_text(each: DayPublication) -> tuple[str, str]:
    day = format_date(each.day)
    if each.lateness is None:
        return "unknown", f"{day}: before the first publication"
    if each.published_at is None:
        return "missing", f"{day}: not published, late by {format_duration(each.lateness)}"
    if each.on_time:
        return "on-time", f"{day}: on time"
    return "late-day", f"{day}: {format_duration(each.lateness)} late"
