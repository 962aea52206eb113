"""Reading published files for people: the first rows, all rows, and a spreadsheet-safe copy.

Works on the stored gzip stream piece by piece, so neither the size of a file nor that of a cell
decides about memory. Nothing here runs on the event loop.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import FileDamaged
from daybreak.domain.snapshot import ManifestEntry
from daybreak.ports.files import FileStore
from daybreak.web.dashboard.formulas import disarmed

PREVIEW_ROWS = 50
_PREVIEW_BYTES = 4 << 20
_LONGEST_CELL = 64 << 20
_PIECE_CHARACTERS = 256 * 1024

csv.field_size_limit(_LONGEST_CELL)


def unpacked(pieces: Iterable[bytes], *, most_bytes: int | None = None) -> Iterator[bytes]:
    """The content of a gzip stream, at most `most_bytes` of it, in pieces of 1 MiB at most. Raises FileDamaged where it
    is none, or ends too early: a part of a file must not pass for the whole.
    """
    machine = zlib.decompressobj(wbits=31)
    left = most_bytes
    for piece in pieces:
        data: bytes = piece
        while data:
            try:
                content = machine.decompress(data, 1 << 20)
            except zlib.error as fault:
                raise FileDamaged(f"A stored file is damaged: {fault}") from fault
            data = machine.unconsumed_tail
            if left is not None:
                content = content[:left]
                left -= len(content)
            if content:
                yield content
            if left == 0:
                return
    if not machine.eof:
        raise FileDamaged("A stored file ends too early")


def lines(content: Iterable[bytes]) -> Iterator[str]:
    """Text lines that end in LF and nothing else; the last may lack it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    held: list[str] = []
    for piece in content:
        text = decoder.decode(piece)
        *whole, rest = text.split("\n")
        for line in whole:
            yield "".join((*held, line, "\n"))
            held = []
        if rest:
            held.append(rest)
    if held:
        yield "".join(held)


def csv_rows(store: FileStore, key: str, *, most_bytes: int | None = None) -> Iterator[list[str]]:
    """The records of a stored CSV file, header left out; NULL and the empty string are both ``."""
    reader = csv.reader(lines(unpacked(store.read(key), most_bytes=most_bytes)))
    next(reader, None)
    yield from reader


def json_records(store: FileStore, key: str, *, most_bytes: int) -> Iterator[dict[str, object]]:
    """The records of a stored JSON file, one to a line; ends at the first line that is cut off."""
    for line in lines(unpacked(store.read(key), most_bytes=most_bytes)):
        text = line.strip().lstrip("[").rstrip("]").rstrip(",") if line[:1] in "[]" else line.rstrip().rstrip(",")
        if not text:
            continue
        try:
            record = json.loads(text if text.endswith("}") else text.rstrip("]"))
        except ValueError:
            return
        if isinstance(record, dict):
            yield record


def first_rows(store: FileStore, resource: Resource, entry: ManifestEntry) -> list[list[str | None]]:
    """Up to 50 rows in column order; None is NULL. Reads 4 MiB of content at most.

    From the JSON file where there is one, because there NULL and the empty string differ.
    """
    names = resource.column_names
    rows: list[list[str | None]] = []
    if "json" in entry.formats:
        for record in json_records(store, entry.formats["json"].key, most_bytes=_PREVIEW_BYTES):
            rows.append([_cell(record.get(name)) for name in names])
            if len(rows) == PREVIEW_ROWS:
                break
        return rows
    if "csv" in entry.formats:
        try:
            for row in csv_rows(store, entry.formats["csv"].key, most_bytes=_PREVIEW_BYTES):
                if len(row) == len(names):
                    rows.append([cell or None for cell in row])
                if len(rows) == PREVIEW_ROWS:
                    break
        except csv.Error:
            return rows
    return rows


def spreadsheet_safe(store: FileStore, resource: Resource, key: str) -> Iterator[bytes]:
    """The CSV file again with every text cell that a spreadsheet would run as a formula made plain
    text by an apostrophe, with a byte-order mark and CRLF, as spreadsheets read best. Every cell is in quotes: some
    part lines at semicolons and tabs too.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    texts = [index for index, column in enumerate(resource.columns) if column.type is ColumnType.TEXT]
    buffer.write("\ufeff")
    writer.writerow(resource.column_names)
    for row in csv_rows(store, key):
        writer.writerow(_safe(row, texts))
        if buffer.tell() >= _PIECE_CHARACTERS:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def _safe(row: list[str], texts: Sequence[int]) -> list[str]:
    for index in texts:
        if index < len(row):
            row[index] = disarmed(row[index])
    return row


def _cell(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
