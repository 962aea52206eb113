"""Copies of stored text files without the rows of one Member."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import FileStoreError
from daybreak.export.delta.csv_rows import CELL
from daybreak.export.text_formats import TextFormat, text_format

MEMBER_COLUMN = "MEMBER_ID"
_BLOCK_BYTES = 1 << 20
# Possessive repetitions take no memory for each quote.
_CSV_RECORD = re.compile(rb'(?:[^"\n]++|"[^"]*+")++')
# Expressions for values, each with one group. An identifier may be NULL in the rows of a source.
_IDENTIFIER = rb'(?:"([0-9a-f-]{36})"|null|(?=,|\Z))'
_NUMBER = rb"([0-9]+)"


class MemberRecords:
    """Records of one Member in the text files of a resource with the column MEMBER_ID.

    `removed` counts the records removed by `without`, and `communities` those by COMMUNITY_ID, if the resource has it.
    """

    def __init__(self, resource: Resource, format: str, member_id: str) -> None:
        self._format = text_format(resource, format)
        self._identifier = member_id.encode()
        self._member = _value_pattern(resource, format, MEMBER_COLUMN, _IDENTIFIER)
        self._community = (
            _value_pattern(resource, format, "COMMUNITY_ID", _IDENTIFIER)
            if "COMMUNITY_ID" in resource.column_names
            else None
        )
        self.removed = 0
        self.communities: Counter[str] = Counter()

    def occur_in(self, pieces: Iterable[bytes]) -> bool:
        """Return whether content has a record of the Member."""
        return any(any(map(self._is_own, self._searched(block))) for block in record_blocks(self._format, pieces))

    def without(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the content without the Member's records."""
        yield from joined_blocks(self._format, self._remaining(pieces))

    def _searched(self, block: bytes) -> list[bytes]:
        """Return the records of a block. Most blocks do not contain the identifier: then return none."""
        return split_block(self._format, block) if self._identifier in block else []

    def _is_own(self, record: bytes) -> bool:
        return _value(self._member, record)[1] == self._identifier

    def _remaining(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for block in record_blocks(self._format, pieces):
            records = self._searched(block)
            own = list(filter(self._is_own, records))
            if not own:
                yield block
                continue
            self.removed += len(own)
            if self._community is not None:
                found = (_value(self._community, record)[1] for record in own)
                self.communities.update(map(bytes.decode, filter(None, found)))
            kept = [record for record in records if not self._is_own(record)]
            if kept:
                yield self._format.separator.join(kept)


def with_fewer_members(
    resource: Resource, format: str, pieces: Iterable[bytes], removed: Mapping[str, int]
) -> Iterator[bytes]:
    """Yield the content of `communities` with lower values of MEMBER_COUNT.

    `removed` has the number of removed members by COMMUNITY_ID.
    """
    layout = text_format(resource, format)
    community = _value_pattern(resource, format, "COMMUNITY_ID", _IDENTIFIER)
    count = _value_pattern(resource, format, "MEMBER_COUNT", _NUMBER)

    def fewer(record: bytes) -> bytes:
        found = _value(count, record)
        left = int(found[1]) - removed.get((_value(community, record)[1] or b"").decode(), 0)
        if left < 0:
            raise FileStoreError("communities: MEMBER_COUNT is lower than the number of rows in member_communities.")
        return record[: found.start(1)] + str(left).encode() + record[found.end(1) :]

    blocks = (map(fewer, split_block(layout, block)) for block in record_blocks(layout, pieces))
    yield from joined_blocks(layout, map(layout.separator.join, blocks))


def _value_pattern(resource: Resource, format: str, column: str, value: bytes) -> re.Pattern[bytes]:
    """Return an expression that finds the value of a column in a record."""
    if format != "csv":
        # A text cannot contain the name and its quotes: quotes are escaped.
        return re.compile(b'"%b":%b' % (column.encode(), value))
    return re.compile(rb"\A(?:%b,){%d}%b" % (CELL, resource.column_names.index(column), value))


def _value(pattern: re.Pattern[bytes], record: bytes) -> re.Match[bytes]:
    found = pattern.search(record)
    if found is None:
        raise FileStoreError("A record does not have the columns of its resource.")
    return found


def record_blocks(format: TextFormat, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the records of a file in blocks of about 1 MiB: whole records, joined by the separator.

    Raises FileStoreError if the content does not have the layout of the format.
    """
    remaining = filter(None, pieces)
    buffer = b""
    while len(buffer) <= len(format.empty_file) and (piece := next(remaining, b"")):
        buffer += piece
    if buffer == format.empty_file:
        return
    if not buffer.startswith(format.head):
        raise FileStoreError("The beginning of the file is not that of its format.")
    buffer = buffer[len(format.head) :]
    for piece in remaining:
        buffer += piece
        if len(buffer) >= _BLOCK_BYTES:
            end = _last_boundary(format, buffer)
            if end > 0:
                yield buffer[:end]
                buffer = buffer[end + len(format.separator) :]
    # The last separator of CSV and NDJSON is their tail.
    if buffer or format.tail != format.separator:
        if not buffer.endswith(format.tail):
            raise FileStoreError("The end of the file is missing.")
        yield buffer[: -len(format.tail)]


def _last_boundary(format: TextFormat, buffer: bytes) -> int:
    """Return the position of the last separator between records, -1 without one. `buffer` begins with a record."""
    end = buffer.rfind(format.separator)
    quotes = buffer.count(b'"', 0, end) if format.is_csv and end > 0 else 0
    while quotes % 2 and end > 0:
        start = buffer.rfind(format.separator, 0, end)
        quotes -= buffer.count(b'"', max(start, 0), end)
        end = start
    return end


def split_block(format: TextFormat, block: bytes) -> list[bytes]:
    """Return the records of a block."""
    return _CSV_RECORD.findall(block) if format.is_csv else block.split(format.separator)


def joined_blocks(format: TextFormat, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a file with these blocks of records."""
    is_empty = True
    for block in blocks:
        yield format.head if is_empty else format.separator
        yield block
        is_empty = False
    yield format.empty_file if is_empty else format.tail
