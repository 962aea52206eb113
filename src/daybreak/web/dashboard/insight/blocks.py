"""Blocks of the Insight page: tables that the page and the CSV files show alike, and the names of stored values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, TypeVar

from daybreak.domain.display import localized
from daybreak.insight.campaigns import ASCENDING, CampaignDay
from daybreak.insight.members import GrowthDay
from daybreak.insight.periods import Bucket
from daybreak.web.dashboard.formatting import format_number, format_percentage, format_words
from daybreak.web.dashboard.spreadsheets import spreadsheet_csv

ColumnKind = Literal["text", "count", "share", "ratio", "date"]
Cell = str | int | float | date | Bucket | None
"""Value of a cell. A share is a number from 0 to 1, None without a whole."""

_LABELS = {
    "sms": "SMS",
    "mms": "MMS",
    "whatsapp": "WhatsApp",
    "dm": "Direct message",
    "fan_onboarding": "Member onboarding",
    "opt_in": "Opt-in confirmation",
    "opt_out": "Opt-out confirmation",
    "keyword_response": "Keyword reply",
    "seat_onboarding": "Seat onboarding",
    "help_response": "Help reply",
    "automated": "Automated message",
    "external": "External system",
}
Day = TypeVar("Day", GrowthDay, CampaignDay)
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a block. `order` is the name of its order in pages that do not read all rows."""

    label: str
    kind: ColumnKind = "count"
    order: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a block: the name in the first column, then the other cells.

    `url` is the page of the name. `is_rest` marks the sum of rows that the block does not list.
    """

    name: str | Bucket
    cells: tuple[Cell, ...]
    url: str = ""
    is_rest: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: a count, or a share from 0 to 1. `previous` is its value in the period before.

    Values are None if there is nothing to divide by, or no comparison. `block` is the block whose headline it is.
    """

    label: str
    value: float | None
    previous: float | None = None
    is_share: bool = False
    block: str = ""

    @property
    def text(self) -> str:
        return self._format(self.value)

    @property
    def previous_text(self) -> str:
        """The value in the period before, "" without comparison."""
        return "" if self.previous is None else self._format(self.previous)

    @property
    def change(self) -> str:
        """Change between the values as shown: `+12.3 %`, of shares `+0.4 percentage points`. "" without comparison."""
        if self.value is None or self.previous is None:
            return ""
        if self.is_share:
            return _signed(round(100 * self.value, 1) - round(100 * self.previous, 1), "percentage points")
        if not self.previous:
            return "none before" if self.value else "no change"
        return _signed(100 * (self.value - self.previous) / self.previous, "%")

    def _format(self, value: float | None) -> str:
        return format_percentage(value, 1) if self.is_share and value is not None else format_number(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A table of figures.

    `name` is part of ids and of the CSV file's name. `series` are the indexes of the cells that a chart shows, as lines
    if `line` is set. Bars of the cells in `below` extend below zero. `previous` are the sums that the chart compares
    with each bucket. `total` is the last row of the table. The legend of the chart shows its values under the name
    `legend`. `headline` answers the question of the block.
    """

    name: str
    title: str
    note: str = ""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    total: tuple[Cell, ...] | None = None
    series: tuple[int, ...] = ()
    line: bool = False
    below: frozenset[int] = frozenset()
    previous: tuple[float, ...] = ()
    legend: str = "Whole period"
    headline: Figure | None = None

    @property
    def by_period(self) -> bool:
        """Whether each row is a bucket of the period."""
        return bool(self.rows) and isinstance(self.rows[0].name, Bucket)

    @property
    def bar_maximum(self) -> int:
        """Largest value of the first column of numbers."""
        return max((cell for row in self.rows if isinstance(cell := row.cells[0], int)), default=0)


@dataclass(frozen=True, slots=True)
class TableSort:
    """Order of the rows of a table on a page, and links to other orders.

    `value` is the value of the page's query parameter. `name` returns its part for a column by block and index, "" for
    a column without order. `url` returns the page of a value. `query` are the other parameters of the page.
    """

    value: str
    name: Callable[[Block, int], str]
    url: Callable[[str], str]
    query: Mapping[str, str] = field(default_factory=dict)

    def direction(self, block: Block, index: int) -> str:
        """Return the direction of the order by a column, "" if the table has another order."""
        name = self.name(block, index)
        if not name or self.value.removesuffix(ASCENDING) != name:
            return ""
        return "ascending" if self.value.endswith(ASCENDING) else "descending"

    def link(self, block: Block, index: int) -> str:
        """Return the URL of the order by a column, or of its reverse. The first order of text is ascending."""
        name = self.name(block, index)
        is_text = block.columns[index].kind == "text" and not block.by_period
        ascending = {"ascending": False, "descending": True}.get(self.direction(block, index), is_text)
        return self.url(name + (ASCENDING if ascending else "")) if name else ""

    def options(self, block: Block) -> Iterator[tuple[str, str]]:
        """Return value and label of each order, for tables whose headings are not shown."""
        for at, column in enumerate(block.columns):
            up, down = {"text": ("A to Z", "Z to A"), "date": ("oldest first", "newest first")}.get(
                column.kind, ("lowest first", "highest first")
            )
            orders = [(self.name(block, at), down), (self.name(block, at) + ASCENDING, up)]
            for value, order in reversed(orders) if column.kind == "text" else orders:
                yield value, f"{column.label}: {order}"

    def column(self, block: Block) -> int | None:
        """Return the index of the column by which a table is sorted, None for the order of the block."""
        return next((at for at in range(len(block.columns)) if self.direction(block, at)), None)

    def rows(self, block: Block) -> Iterator[tuple[int, Row]]:
        """Return the rows in order, with their indexes in the block. Periods are in descending order by default.

        Rows without a value, and sums of rows that are not listed, come last.
        """
        column = self.column(block)
        if column is None:
            rows = list(enumerate(block.rows))
            yield from reversed(rows) if block.by_period else rows
            return
        keys = {at: _sort_key((row.name, *row.cells)[column]) for at, row in enumerate(block.rows) if not row.is_rest}
        ranked = [at for at, key in keys.items() if key is not None]
        ranked.sort(key=keys.__getitem__, reverse=self.direction(block, column) == "descending")
        for at in (*ranked, *(at for at in range(len(block.rows)) if keys.get(at) is None)):
            yield at, block.rows[at]


def _sort_key(cell: Cell) -> Any:
    if isinstance(cell, Bucket):
        return cell.first
    return cell.casefold() if isinstance(cell, str) else cell


def share(part: float, whole: float) -> float | None:
    """Return a part as a number from 0 to 1, None without a whole."""
    return part / whole if whole else None


def sum_of(kind: type[Day], days: Sequence[Day]) -> Day:
    """Return the sums of the figures of days."""
    return kind(*(sum(getattr(day, name) for day in days) for name in kind.__slots__))


def block_csv(block: Block) -> bytes:
    """Return the rows of a block for spreadsheets, with formulas escaped. Buckets are their first and last day."""
    first, *others = (column.label for column in block.columns)
    header = ["From", "To", *others] if block.by_period else [first, *others]
    return b"".join(spreadsheet_csv([header, *(_csv_row(row) for row in block.rows)]))


def _csv_row(row: Row) -> list[str]:
    names = [row.name] if isinstance(row.name, str) else [row.name.first.isoformat(), row.name.last.isoformat()]
    return [*names, *map(_csv_cell, row.cells)]


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    return localized(f"{cell:.6f}") if isinstance(cell, float) else str(cell)


def campaign_label(name: str) -> str:
    """Return the name of a campaign, or a placeholder."""
    return name.strip() or "Untitled campaign"


def value_label(value: str) -> str:
    """Return the label of a channel, a type or a state. Unlisted values, also unexpected ones, are shown as words."""
    return _LABELS.get(value) or format_words(value) or "Unknown"


def _signed(value: float, unit: str) -> str:
    text = f"{abs(value):,.1f}"
    if text == "0.0":
        return "no change"
    return f"{_MINUS if value < 0 else '+'}{localized(text)} {unit}"
