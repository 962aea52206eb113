"""Blocks of the Insight page: tables of figures, which the page and the CSV files show alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from daybreak.domain.display import localized
from daybreak.insight.periods import Bucket
from daybreak.web.dashboard.spreadsheets import spreadsheet_csv

ColumnKind = Literal["text", "count", "share", "ratio", "date"]
Cell = str | int | float | Bucket | None
"""Value of a cell. A share is a number from 0 to 1, None without a whole."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a block."""

    label: str
    kind: ColumnKind = "count"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a block: the name in the first column, then the other cells. `url` is the page of the name."""

    name: str | Bucket
    cells: tuple[Cell, ...]
    url: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A table of figures.

    `name` is part of ids and of the CSV file's name. `series` are the indexes of the cells that a chart shows, as lines
    if `line` is set. Bars of the cells in `below` extend below zero. `previous` are the sums that the chart compares
    with each bucket. `total` is the last row of the table. The legend of the chart shows its values under the name
    `legend`.
    """

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    total: tuple[Cell, ...] | None = None
    series: tuple[int, ...] = ()
    line: bool = False
    below: frozenset[int] = frozenset()
    previous: tuple[float, ...] = ()
    legend: str = "Whole period"

    @property
    def by_period(self) -> bool:
        """Whether each row is a bucket of the period."""
        return bool(self.rows) and isinstance(self.rows[0].name, Bucket)

    @property
    def bar_maximum(self) -> int:
        """Largest value of the first column of numbers."""
        return max((cell for row in self.rows if isinstance(cell := row.cells[0], int)), default=0)


def share(part: float, whole: float) -> float | None:
    """Return a part as a number from 0 to 1, None without a whole."""
    return part / whole if whole else None


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
