"""Charts as SVG paths, drawn from the cells of a block. Pages show them without a script.

Paths are in a box of 1000 x 1000 that the page stretches. Axis labels are outside of the box, so that text keeps its
size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from daybreak.domain.display import localized
from daybreak.insight.periods import Bucket
from daybreak.web.dashboard.insight.blocks import Block

_BOX = 1000
_BAR_SHARE = 0.72
# Bars of the period before, which are behind the others.
_GHOST_SHARE = 0.94
_LOSS_NUMBERS = (4, 6, 5)
_TICKS = 4
_LABELS = 5
_MAXIMUM_DAYS_BY_DAY = 92
_COMPACT_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its name and path. `number` selects the color. `dots` are the values of a line between gaps."""

    name: str
    number: int
    path: str
    is_line: bool = False
    dots: str = ""


AxisLabel = tuple[str, str, str]
"""Position on an axis as a percentage of its length, text, and alignment."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one block."""

    series: tuple[Series, ...]
    previous: str
    ticks: tuple[AxisLabel, ...]
    labels: tuple[AxisLabel, ...]
    zero: str
    buckets: int


def draw_chart(block: Block) -> Chart | None:
    """Draw the series of a block whose rows are buckets. Return None if there is nothing to draw.

    Bars are stacked, negative values below zero. Lines have gaps at cells without a value.
    """
    buckets = [row.name for row in block.rows if isinstance(row.name, Bucket)]
    values = [
        [_signed(row.cells[index], -1 if index in block.below else 1) for row in block.rows] for index in block.series
    ]
    if not buckets or all(value is None for cells in values for value in cells):
        return None
    low, high = _extent(block, values)
    ticks = _ticks(low, high)
    scale = _Scale(ticks[0], ticks[-1])
    names = [block.columns[index + 1].label for index in block.series]
    paths = [_line(cells, scale) for cells in values] if block.line else _stacked_bars(values, scale)
    percent = block.columns[block.series[0] + 1].kind == "share"
    # Losses, which are below zero, have no color of a gain.
    losses = iter(_LOSS_NUMBERS)
    numbers = [next(losses) if index in block.below else at for at, index in enumerate(block.series, start=1)]
    return Chart(
        series=tuple(
            Series(name, number, path, block.line, _dots(cells, scale) if block.line else "")
            for name, number, path, cells in zip(names, numbers, paths, values, strict=True)
        ),
        previous=_stacked_bars([block.previous], scale, _GHOST_SHARE)[0] if block.previous else "",
        ticks=tuple((_percentage(scale.y(tick)), _tick_text(tick, percent=percent), "end") for tick in ticks),
        labels=_bucket_labels(buckets),
        zero=_percentage(scale.y(0)),
        buckets=len(buckets),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float

    def y(self, value: float) -> float:
        return _BOX * (self.high - value) / (self.high - self.low)


def _signed(cell: object, sign: int) -> float | None:
    return float(cell) * sign if isinstance(cell, int | float) else None


def _extent(block: Block, values: Sequence[Sequence[float | None]]) -> tuple[float, float]:
    """Return the lowest and highest value of the chart, with zero between them."""
    if block.line:
        found = [value for cells in values for value in cells if value is not None]
        return 0.0, max(found)
    stacks = [[cells[at] or 0.0 for cells in values] for at in range(len(block.rows))]
    high = max(sum(value for value in stack if value > 0) for stack in stacks)
    low = min(sum(value for value in stack if value < 0) for stack in stacks)
    return low, max(high, *block.previous) if block.previous else high


def _ticks(low: float, high: float) -> list[float]:
    """Return round values at equal distances, from one at or below `low` to one at or above `high`."""
    span = max(high - low, 1e-9)
    raw = span / _TICKS
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw * 0.999)
    if span >= 1 and step < 1 and high > 1:
        step = 1.0
    first, last = math.floor(low / step + 1e-9), max(math.ceil(high / step - 1e-9), 1)
    return [number * step for number in range(first, last + 1)]


def _tick_text(value: float, *, percent: bool) -> str:
    if percent:
        return localized(f"{100 * value:.4g} %")
    sign, size = ("\N{MINUS SIGN}" if value < 0 else ""), abs(value)
    for unit, name in _COMPACT_UNITS:
        if size >= unit:
            return localized(f"{sign}{size / unit:.3g}{name}")
    return localized(f"{sign}{size:.3g}")


def _stacked_bars(
    values: Sequence[Sequence[float | None]], scale: _Scale, width_share: float = _BAR_SHARE
) -> list[str]:
    count = len(values[0])
    slot = _BOX / count
    width = slot * width_share
    above, below = [0.0] * count, [0.0] * count
    paths = []
    for cells in values:
        parts = []
        for at, cell in enumerate(cells):
            value = cell or 0.0
            if not value:
                continue
            base = above if value > 0 else below
            top = scale.y(max(base[at], base[at] + value))
            height = abs(scale.y(base[at]) - scale.y(base[at] + value))
            base[at] += value
            parts.append(f"M{slot * at + (slot - width) / 2:.5g} {top:.5g}h{width:.4g}v{height:.5g}h-{width:.4g}z")
        paths.append("".join(parts))
    return paths


def _line(cells: Sequence[float | None], scale: _Scale) -> str:
    """Return a path with a gap where cells have no value."""
    path, before = "", None
    for at, cell in enumerate(cells):
        if cell is not None:
            path += f"{'M' if before is None else 'L'}{_point(at, cell, len(cells), scale)}"
        before = cell
    return path


def _dots(cells: Sequence[float | None], scale: _Scale) -> str:
    """Return a dot for each value between gaps, which a line would not show."""
    around = zip([None, *cells], cells, [*cells[1:], None], strict=False)
    return "".join(
        f"M{_point(at, cell, len(cells), scale)}h0.1"
        for at, (before, cell, after) in enumerate(around)
        if cell is not None and before is None and after is None
    )


def _point(at: int, value: float, count: int, scale: _Scale) -> str:
    return f"{_BOX / count * (at + 0.5):.5g} {scale.y(value):.5g}"


def _bucket_labels(buckets: Sequence[Bucket]) -> tuple[AxisLabel, ...]:
    """Return labels of some buckets at equal distances. The outer ones are aligned with the edges."""
    if len(buckets) <= 1:
        return tuple(("50%", bucket.label, "middle") for bucket in buckets)
    count = min(_LABELS, len(buckets))
    places = [round(number * (len(buckets) - 1) / (count - 1)) for number in range(count)]
    by_month = (buckets[-1].last - buckets[0].first).days > _MAXIMUM_DAYS_BY_DAY
    labels = []
    for place in places:
        anchor = "start" if place == 0 else "end" if place == len(buckets) - 1 else "middle"
        position = {"start": "0%", "end": "100%"}.get(anchor) or _percentage(_BOX * (place + 0.5) / len(buckets))
        labels.append((position, _place_text(buckets[place], by_month=by_month), anchor))
    return tuple(labels)


def _place_text(bucket: Bucket, *, by_month: bool) -> str:
    if bucket.label.isdigit():
        return bucket.label
    return f"{bucket.first:%b %Y}" if by_month else f"{bucket.first.day} {bucket.first:%b}"


def _percentage(position: float) -> str:
    return f"{position / _BOX * 100:.4g}%"
