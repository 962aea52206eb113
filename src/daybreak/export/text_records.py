"""Records of the content of a stored text file, in blocks, so that a file of any size takes little memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import FileStoreError
from daybreak.export.line_sql import JSON_SEPARATOR, csv_header

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TextLayout:
    """Layout of a file: `head`, the records joined by `separator`, `tail`; `empty` without records.

    With `is_quoted`, records may contain the separator inside double quotes.
    """

    head: bytes
    separator: bytes
    tail: bytes
    empty: bytes
    is_quoted: bool = False


def layout_of(resource: Resource, format: str) -> TextLayout:
    """Return the layout of csv, json or ndjson. Raises KeyError."""
    match format:
        case "csv":
            head = csv_header(resource)
            return TextLayout(head, b"\n", b"\n", head, is_quoted=True)
        case "json":
            return TextLayout(b"[", JSON_SEPARATOR, b"]", b"[]")
        case "ndjson":
            return TextLayout(b"", b"\n", b"\n", b"")
    raise KeyError(format)


def record_blocks(layout: TextLayout, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the records of a file in blocks of about 1 MiB: whole records, joined by the separator.

    Raises FileStoreError if the content does not have the layout.
    """
    remaining = iter(pieces)
    buffer = _without_head(layout, remaining)
    if buffer is None:
        return
    for piece in remaining:
        buffer += piece
        if len(buffer) >= _BLOCK_BYTES:
            end = _last_boundary(layout, buffer)
            if end > 0:
                yield buffer[:end]
                buffer = buffer[end + len(layout.separator) :]
    # The last separator of CSV and NDJSON is their tail.
    if buffer or layout.tail != layout.separator:
        if not buffer.endswith(layout.tail):
            raise FileStoreError("The end of the file is missing.")
        yield buffer[: -len(layout.tail)]


def split_block(layout: TextLayout, block: bytes) -> Iterator[bytes]:
    """Yield the records of a block."""
    parts = block.split(layout.separator)
    if not layout.is_quoted:
        yield from parts
        return
    record: list[bytes] = []
    quotes = 0
    for part in parts:
        record.append(part)
        quotes += part.count(b'"')
        if quotes % 2 == 0:
            yield layout.separator.join(record)
            record, quotes = [], 0


def joined_blocks(layout: TextLayout, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a file with these blocks of records."""
    is_empty = True
    for block in blocks:
        yield layout.head if is_empty else layout.separator
        yield block
        is_empty = False
    yield layout.empty if is_empty else layout.tail


def _without_head(layout: TextLayout, pieces: Iterator[bytes]) -> bytes | None:
    """Return the first bytes after the head, None for a file without records."""
    buffer = b""
    while len(buffer) <= len(layout.empty) and (piece := next(pieces, None)) is not None:
        buffer += piece
    if buffer == layout.empty:
        return None
    if not buffer.startswith(layout.head):
        raise FileStoreError("The beginning of the file is not that of its format.")
    return buffer[len(layout.head) :]


def _last_boundary(layout: TextLayout, buffer: bytes) -> int:
    """Return the position of the last separator between records, -1 without one. `buffer` begins with a record."""
    end = buffer.rfind(layout.separator)
    while layout.is_quoted and end > 0 and buffer.count(b'"', 0, end) % 2:
        end = buffer.rfind(layout.separator, 0, end)
    return end
