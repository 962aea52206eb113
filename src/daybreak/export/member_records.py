"""Copies of stored text files without the rows of one Member."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import FileStoreError
from daybreak.export.line_sql import JSON_SEPARATOR, csv_header

MEMBER_COLUMN = "MEMBER_ID"
_NUMBER = re.compile(rb"[0-9]+")

_BLOCK_BYTES = 1 << 20


class MemberRecords:
    """Records of one Member in the text files of a resource with the column MEMBER_ID.

    `removed` counts the records removed by `without`, and `communities` those by COMMUNITY_ID, if the resource has it.
    """

    def __init__(self, resource: Resource, format: str, member_id: str) -> None:
        self._layout = layout_of(resource, format)
        self._identifier = f'"{member_id}"'.encode()
        self._is_member = _cell_test(resource, format, MEMBER_COLUMN, member_id)
        self._community = (
            _uuid_reader(resource, format, "COMMUNITY_ID") if "COMMUNITY_ID" in resource.column_names else None
        )
        self.removed = 0
        self.communities: Counter[str] = Counter()

    def occur_in(self, pieces: Iterable[bytes]) -> bool:
        """Return whether content has a record of the Member."""
        return any(self._records_of(block) for block in record_blocks(self._layout, pieces))

    def without(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the content without the Member's records."""
        yield from joined_blocks(self._layout, self._remaining(pieces))

    def _records_of(self, block: bytes) -> list[bytes]:
        # Most blocks do not contain the identifier.
        if self._identifier not in block:
            return []
        return [record for record in split_block(self._layout, block) if self._is_member(record)]

    def _remaining(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for block in record_blocks(self._layout, pieces):
            own = self._records_of(block)
            if not own:
                yield block
                continue
            self.removed += len(own)
            if self._community is not None:
                self.communities.update(map(self._community, own))
            kept = [record for record in split_block(self._layout, block) if not self._is_member(record)]
            if kept:
                yield self._layout.separator.join(kept)


def with_fewer_members(
    resource: Resource, format: str, pieces: Iterable[bytes], removed: Mapping[str, int]
) -> Iterator[bytes]:
    """Yield the content of `communities` with lower values of MEMBER_COUNT.

    `removed` has the number of removed members by COMMUNITY_ID.
    """
    layout = layout_of(resource, format)
    community = _uuid_reader(resource, format, "COMMUNITY_ID")
    fewer = partial(_fewer, _start_reader(resource, format, "MEMBER_COUNT"))

    def changed(block: bytes) -> bytes:
        return layout.separator.join(fewer(record, removed.get(community(record), 0)) for record in split(block))

    def split(block: bytes) -> Iterator[bytes]:
        return split_block(layout, block)

    yield from joined_blocks(layout, map(changed, record_blocks(layout, pieces)))


def _fewer(start: Callable[[bytes], int], record: bytes, removed: int) -> bytes:
    """Return a record with a lower number in the cell that begins at `start`."""
    at = start(record)
    number = _NUMBER.match(record, at)
    if number is None:
        raise FileStoreError("communities: a row has no MEMBER_COUNT.")
    count = int(number[0]) - removed
    if count < 0:
        raise FileStoreError("communities: MEMBER_COUNT is lower than the number of rows in member_communities.")
    return record[:at] + str(count).encode() + record[number.end() :]


def _cell_test(resource: Resource, format: str, column: str, value: str) -> Callable[[bytes], bool]:
    read = _uuid_reader(resource, format, column)
    return lambda record: read(record) == value


def _uuid_reader(resource: Resource, format: str, column: str) -> Callable[[bytes], str]:
    start = _start_reader(resource, format, column, b'"')
    return lambda record: _uuid_at(record, start(record))


def _start_reader(resource: Resource, format: str, column: str, quote: bytes = b"") -> Callable[[bytes], int]:
    """Return a function that returns where the value of a column begins in a record, after its quote."""
    if format != "csv":
        return partial(_json_start, f'"{column}":'.encode() + quote)
    position = resource.column_names.index(column)
    return lambda record: _cell_start(record, position) + len(quote)


def _json_start(name: bytes, record: bytes) -> int:
    # A text cannot contain the name and its quotes: quotes are escaped.
    at = record.find(name)
    if at < 0:
        raise FileStoreError("A JSON record does not have the columns of its resource.")
    return at + len(name)


def _cell_start(record: bytes, position: int) -> int:
    """Return where the cell at a position begins in a CSV record."""
    start = 0
    for _ in range(position):
        if record[start : start + 1] == b'"':
            # A quoted cell ends at a quote that no other quote follows.
            start = record.index(b'"', start + 1) + 1
            while record[start : start + 1] == b'"':
                start = record.index(b'"', start + 1) + 1
        start = record.index(b",", start) + 1
    return start


def _uuid_at(record: bytes, start: int) -> str:
    return record[start : start + 36].decode("ascii", "replace")


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
