"""Blocks of the Insight page: tables that the page and the CSV files show alike, and the names of stored values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from daybreak.domain.display import localized
from daybreak.insight.periods import Bucket
from daybreak.web.dashboard.spreadsheets import spreadsheet_csv

ColumnKind = Literal["text", "count", "share", "ratio", "date"]
Cell = str | int | float | Bucket | None
"""Value of a cell. A share is a number from 0 to 1, None without a whole."""

_CHANNELS = {"sms": "SMS", "mms": "MMS", "whatsapp": "WhatsApp"}
_MESSAGE_TYPES = {
    "dm": "Direct message",
    "campaign": "Campaign",
    "fan_onboarding": "Member onboarding",
    "opt_in": "Opt-in confirmation",
    "opt_out": "Opt-out confirmation",
    "keyword_response": "Keyword reply",
    "seat_onboarding": "Seat onboarding",
    "help_response": "Help reply",
    "automated": "Automated message",
    "external": "External system",
    "external_customer_support": "External customer support",
}
_SUBSCRIPTIONS = {"live": "Live", "opted_out": "Opted out", "blocked": "Blocked", "deleted": "Deleted"}
_LINK_TYPES = {"link": "Link", "media": "Media"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a block. `order` is the name of its order in pages that sort the rows by it."""

    label: str
    kind: ColumnKind = "count"
    order: str = ""


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


def channel_label(value: str) -> str:
    """Return the name of a channel."""
    return _label(_CHANNELS, value)


def message_type_label(value: str) -> str:
    """Return the name of a type of outbound message."""
    return _label(_MESSAGE_TYPES, value)


def subscription_label(value: str) -> str:
    """Return the name of a subscription state."""
    return _label(_SUBSCRIPTIONS, value)


def link_type_label(value: str) -> str:
    """Return the name of a type of link."""
    return _label(_LINK_TYPES, value)


def campaign_label(name: str) -> str:
    """Return the name of a campaign, or a placeholder."""
    return name.strip() or "Untitled campaign"


def _label(labels: Mapping[str, str], value: str) -> str:
    """Return the label of a value. An unexpected value, which files contain as it is, is shown as words."""
    words = value.replace("_", " ").strip()
    return labels.get(value) or words[:1].upper() + words[1:] or "Unknown"
