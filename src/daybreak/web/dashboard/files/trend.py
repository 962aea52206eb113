"""Change of a row count between snapshots, as text and as a sparkline."""

from collections.abc import Sequence
from dataclasses import dataclass

from daybreak.web.dashboard.formatting import format_number, format_percentage

_LARGE_DROP_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class RowChange:
    """Difference from the previous snapshot. `direction` is `up`, `down`, `same` or `none`.

    `is_large_drop`: more than a fifth of the rows are gone.
    """

    text: str
    direction: str
    is_large_drop: bool = False


def row_change(rows: int, previous: int | None) -> RowChange:
    """Return the difference as text: `+120 (+1.2 %)`, `same number`, or `nothing to compare` without `previous`."""
    if previous is None:
        return RowChange("nothing to compare", "none")
    difference = rows - previous
    if difference == 0:
        return RowChange("same number", "same")
    sign = "+" if difference > 0 else "\N{MINUS SIGN}"
    percentage = f" ({sign}{format_percentage(abs(difference), previous)})" if previous else ""
    return RowChange(
        f"{sign}{format_number(abs(difference))}{percentage}",
        "up" if difference > 0 else "down",
        is_large_drop=-difference > _LARGE_DROP_SHARE * previous,
    )


def sparkline(values: Sequence[int]) -> tuple[str, str] | None:
    """Draw row counts, oldest first, in a box of 100 x 30. Return SVG points and a label, None for one count.

    The scale begins at 0, so that the line falls as far as the rows do.
    """
    if len(values) < 2:
        return None
    low, high = min(values), max(values)
    step = 100 / (len(values) - 1)
    points = [(index * step, 29 - 27 * value / max(high, 1)) for index, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    first, last, lowest, highest = map(format_number, (values[0], values[-1], low, high))
    label = f"Rows over {len(values)} snapshots: from {first} to {last}, lowest {lowest}, highest {highest}"
    return line, label
