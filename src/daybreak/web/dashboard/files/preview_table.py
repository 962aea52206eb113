"""Tables of rows: those of a preview, and those that a delta added, removed or changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from daybreak.catalogue.columns import Column
from daybreak.catalogue.resources import Resource
from daybreak.domain.counts import format_count
from daybreak.domain.delta import ResourceDelta
from daybreak.web.dashboard.files.changed_rows import ADDED, CHANGED, REMOVED, ChangedRow
from daybreak.web.dashboard.formatting import format_number, make_visible

_MAXIMUM_CELL_LENGTH = 300
# Fewer rows have equal values by chance.
_MINIMUM_FOLDED_ROWS = 3
_HEADINGS = {ADDED: "Added", REMOVED: "Removed", CHANGED: "Changed"}

Row = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class PreviewTable:
    """A table. `folded` are columns that have one value in all rows, which is shown once. `name` is part of ids."""

    name: str
    label: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    folded: Sequence[tuple[Column, str | None]] = ()


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """The rows of one kind of change."""

    kind: str
    heading: str
    table: PreviewTable


def preview_table(name: str, label: str, caption: str, columns: Sequence[Column], rows: Iterable[Row]) -> PreviewTable:
    """Return a table without the columns that have one value. The first column stays."""
    shown = [[_cell(cell) for cell in row] for row in rows]
    single = [
        index for index in range(1, len(columns)) if len(shown) >= _MINIMUM_FOLDED_ROWS and _has_one_value(shown, index)
    ]
    kept = [index for index in range(len(columns)) if index not in single]
    return PreviewTable(
        name,
        label,
        caption,
        [columns[index] for index in kept],
        [[row[index] for index in kept] for row in shown],
        [(columns[index], shown[0][index]) for index in single],
    )


def changed_parts(resource: Resource, rows: Sequence[ChangedRow]) -> list[ChangedPart]:
    """Return the rows by kind of change. Of removed rows, only the key is known."""
    key = [index for index, column in enumerate(resource.columns) if column.name in resource.key]
    parts = []
    for kind, heading in _HEADINGS.items():
        found = [row.cells for row in rows if row.kind == kind]
        columns: Sequence[Column] = resource.columns
        if kind == REMOVED:
            columns, found = [columns[index] for index in key], [[cells[index] for index in key] for cells in found]
        if found:
            table = preview_table(f"{resource.name}-{kind}", f"{heading} rows of {resource.title}", "", columns, found)
            parts.append(ChangedPart(kind, f"{heading}: {format_count(len(found), 'row')}", table))
    return parts


def changes_summary(delta: ResourceDelta, rows: Sequence[ChangedRow], *, may_be_all: bool) -> str:
    """Return how many of the changes the tables show."""
    if may_be_all and delta.inserted == sum(1 for row in rows if row.kind != REMOVED):
        return f"All {format_count(len(rows), 'change')}." if len(rows) != 1 else "One change."
    written, deleted = format_number(delta.inserted), format_number(delta.deleted)
    return f"The first {len(rows)} changes. {written} rows were written and {deleted} deleted."


def _has_one_value(rows: Sequence[Row], index: int) -> bool:
    return all(row[index] == rows[0][index] for row in rows)


def _cell(cell: str | None) -> str | None:
    if cell is None:
        return None
    text = make_visible(cell[: _MAXIMUM_CELL_LENGTH + 1])
    return text if len(cell) <= _MAXIMUM_CELL_LENGTH else text[:_MAXIMUM_CELL_LENGTH] + "\N{HORIZONTAL ELLIPSIS}"
