"""Change of a row count between snapshots, as text and as a sparkline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowChange:
    """Difference from the previous snapshot. `direction` is `up`, `down`, `same` or `none`."""

    text: str
    direction: str


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Line chart in a box of 100 x 30. `line` and `area` are SVG point lists."""

    line: str
    area: str
    label: str


def row_change(rows: int, previous: int | None) -> RowChange:
    """Return the difference as text: `+120 (+1.2 %)`, `no change`, `first snapshot`."""
    if previous is None:
        return RowChange("first snapshot", "none")
    difference = rows - previous
    if difference == 0:
        return RowChange("no change", "same")
    sign = "+" if difference > 0 else "\N{MINUS SIGN}"
    percentage = f" ({sign}{abs(difference) / previous:.1%})".replace("%", " %") if previous else ""
    return RowChange(f"{sign}{abs(difference):,}{percentage}", "up" if difference > 0 else "down")


def sparkline(values: Sequence[int]) -> Sparkline | None:
    """Draw row counts, oldest first. Return None for fewer than two values.

    The scale begins near the lowest value so that small changes are visible.
    """
    if len(values) < 2:
        return None
    low, high = min(values), max(values)
    spread = high - low
    step = 100 / (len(values) - 1)
    points = [
        (index * step, 15.0 if spread == 0 else 27 - 24 * (value - low) / spread) for index, value in enumerate(values)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    label = f"Rows over {len(values)} snapshots: from {values[0]:,} to {values[-1]:,}, lowest {low:,}, highest {high:,}"
    return Sparkline(line, f"0,30 {line} 100,30", label)
