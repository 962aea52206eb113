"""Rows of a delta as additions, removals and changes.

A delta has a row `D` for each key that existed, then a row `I` for each row that the key has now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.domain.delta import OPERATION, ResourceDelta
from daybreak.filestore.file_store import FileStore
from daybreak.web.dashboard.files.readers import cell_text, json_records
from daybreak.web.dashboard.spreadsheets import spreadsheet_csv

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
CHANGE = "CHANGE"


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row and its change. Of a removed row, only the columns of the key have values."""

    kind: str
    cells: Sequence[str | None]


def changed_rows(
    store: FileStore, resource: Resource, delta: ResourceDelta, *, maximum_bytes: int | None = None
) -> Iterator[ChangedRow]:
    """Yield the changes of a delta, in the order of the file. The limit may omit those after it."""
    records = json_records(store, delta.formats["json"].key, maximum_bytes=maximum_bytes)
    complete: list[ChangedRow] = []
    lines = 0
    for _, same_key in groupby(records, lambda record: [record.get(name) for name in resource.key]):
        yield from complete
        rows = list(same_key)
        lines += len(rows)
        complete = _changes(resource, rows)
    # The limit may be within the rows of the last key.
    if lines == delta.lines:
        yield from complete


def changes_csv(store: FileStore, resource: Resource, delta: ResourceDelta) -> Iterator[bytes]:
    """Yield the changes as a CSV file for spreadsheets. The first column is the change."""
    text_columns = {index + 1 for index, column in enumerate(resource.columns) if column.type is ColumnType.TEXT}
    rows = ([row.kind, *(cell or "" for cell in row.cells)] for row in changed_rows(store, resource, delta))
    return spreadsheet_csv(chain([[CHANGE, *resource.column_names]], rows), text_columns=text_columns)


def _changes(resource: Resource, rows: Sequence[Mapping[str, object]]) -> list[ChangedRow]:
    inserted = [row for row in rows if row.get(OPERATION) == "I"]
    kind = ADDED if len(inserted) == len(rows) else CHANGED if inserted else REMOVED
    return [ChangedRow(kind, [cell_text(row.get(name)) for name in resource.column_names]) for row in inserted or rows]
