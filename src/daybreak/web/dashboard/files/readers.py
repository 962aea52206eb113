"""Reading of published files: first rows, all rows, and the spreadsheet-safe copy.

Stored gzip streams are read in pieces, so memory does not depend on the size of a file or of a cell.
These functions block: call them outside the event loop.
"""

import codecs
import csv
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.domain.delta import OPERATION, ResourceDelta
from daybreak.domain.errors import FileDamaged
from daybreak.domain.snapshot import ManifestEntry
from daybreak.filestore.file_store import FileStore
from daybreak.web.dashboard.spreadsheets import spreadsheet_csv

PREVIEW_ROWS = 50
PREVIEW_BYTES = 4 << 20
_PIECE_BYTES = 1 << 20
_MAXIMUM_CELL_CHARACTERS = 64 << 20

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
CHANGE = "CHANGE"


def decompress(pieces: Iterable[bytes], *, maximum_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the content of a gzip stream in pieces of at most 1 MiB, up to `maximum_bytes` in total.

    Raises FileDamaged if the stream is not gzip or ends too early.
    """
    decompressor = zlib.decompressobj(wbits=31)
    remaining = maximum_bytes
    for piece in pieces:
        data: bytes = piece
        while data:
            try:
                content = decompressor.decompress(data, _PIECE_BYTES)
            except zlib.error as fault:
                raise FileDamaged(f"A stored file is damaged: {fault}.") from fault
            data = decompressor.unconsumed_tail
            if remaining is not None:
                content = content[:remaining]
                remaining -= len(content)
            if content:
                yield content
            if remaining == 0:
                return
    if not decompressor.eof:
        raise FileDamaged("A stored file ends too early.")


def split_lines(content: Iterable[bytes]) -> Iterator[str]:
    """Yield lines of UTF-8 text with their line feed. Other line separators do not end a line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending: list[str] = []
    for piece in content:
        *complete, rest = decoder.decode(piece).split("\n")
        for line in complete:
            yield "".join((*pending, line, "\n"))
            pending = []
        if rest:
            pending.append(rest)
    if pending:
        yield "".join(pending)


def csv_rows(store: FileStore, key: str, *, maximum_bytes: int | None = None) -> Iterator[list[str]]:
    """Yield the rows of a stored CSV file without its header. NULL and the empty string are both ``.

    Raises FileStoreError.
    """
    # The limit of the process. No other module of the service reads CSV.
    csv.field_size_limit(_MAXIMUM_CELL_CHARACTERS)
    reader = csv.reader(split_lines(decompress(store.read(key), maximum_bytes=maximum_bytes)))
    try:
        next(reader, None)
        yield from reader
    except csv.Error as fault:
        raise FileDamaged(f"A stored file is not valid CSV: {fault}.") from fault


def json_records(store: FileStore, key: str, *, maximum_bytes: int | None) -> Iterator[dict[str, object]]:
    """Yield the records of a stored JSON file, which has one per line, up to the first incomplete line."""
    for line in split_lines(decompress(store.read(key), maximum_bytes=maximum_bytes)):
        text = line.strip().strip("[],")
        if not text:
            continue
        try:
            record: dict[str, object] = json.loads(text)
        except ValueError:
            return
        yield record


def first_rows(store: FileStore, resource: Resource, entry: ManifestEntry) -> list[list[str | None]]:
    """Return up to 50 rows in column order, from at most 4 MiB of content. None is NULL.

    Reads the JSON file if there is one, because CSV does not distinguish NULL from the empty string.
    """
    rows: Iterator[list[str | None]] = iter(())
    if "json" in entry.formats:
        records = json_records(store, entry.formats["json"].key, maximum_bytes=PREVIEW_BYTES)
        rows = ([cell_text(record.get(name)) for name in resource.column_names] for record in records)
    elif "csv" in entry.formats:
        found = csv_rows(store, entry.formats["csv"].key, maximum_bytes=PREVIEW_BYTES)
        # The limit may be within the last row.
        rows = ([cell or None for cell in row] for row in found if len(row) == len(resource.columns))
    return list(islice(rows, PREVIEW_ROWS))


def spreadsheet_safe_csv(store: FileStore, resource: Resource, key: str) -> Iterator[bytes]:
    """Yield a copy of a CSV file in which no text cell is evaluated as a formula."""
    text_columns = {index for index, column in enumerate(resource.columns) if column.type is ColumnType.TEXT}
    return spreadsheet_csv(chain([resource.column_names], csv_rows(store, key)), text_columns=text_columns)


def cell_text(value: object) -> str | None:
    """Return a JSON value as CSV writes it; None for NULL."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


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
