"""Copies of stored text files without the rows of one Member."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import FileStoreError
from daybreak.export.text_records import joined_blocks, layout_of, record_blocks, split_block

MEMBER_COLUMN = "MEMBER_ID"
_NUMBER = re.compile(rb"[0-9]+")


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
    """Return a function that returns the UUID in a column of a record."""
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
