"""Parts of a large Parquet file: consecutive row groups that clients read as files, in parallel.

The bytes of a part are `PAR1`, its row groups, and its footer. The whole file contains the footers of parts in front of
the footer that its readers use, which ignore them. Parts therefore need no other object in the file store.
Their footers have no page index, whose entries count from the start of the file.
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import IO, Any

from daybreak.domain.snapshot import PARQUET_MAGIC, FileStatistics, StoredPart
from daybreak.export.thrift import Struct, decode, encode

MAX_FILE_BYTES = 256_000_000
"""Larger files have parts of about 128 to 256 MB, which tools load in parallel."""
_PIECE_BYTES = 1 << 20
_FOOTER_END = 8
# Numbers of fields: of the file, its row groups, their columns, and the metadata and statistics of a column.
_ROWS, _GROUPS = 3, 4
_COLUMNS, _GROUP_ROWS, _GROUP_OFFSET, _ORDINAL = 1, 3, 5, 7
_COLUMN_OFFSET, _METADATA = 2, 3
_COMPRESSED_BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET, _STATISTICS, _BLOOM_OFFSET, _BLOOM_BYTES = 7, 9, 11, 12, 14, 15
_NULLS = 3


def add_parts(file: IO[bytes]) -> tuple[StoredPart, ...]:
    """Add the footers of parts to a file, and return the parts, none if it is small or has one row group."""
    size = file.seek(0, 2)
    if size <= MAX_FILE_BYTES:
        return ()
    file.seek(size - _FOOTER_END)
    footer_bytes = int.from_bytes(file.read(4), "little")
    footer_start = size - _FOOTER_END - footer_bytes
    file.seek(footer_start)
    end = file.read()
    metadata = decode(end[:footer_bytes])
    groups: list[Struct] = metadata[_GROUPS][1][1]
    cuts = _cuts([_end(group) for group in groups])
    if len(cuts) < 3:
        return ()
    footers = [_part_footer(metadata, groups[first:last]) for first, last in pairwise(cuts)]
    file.seek(footer_start)
    file.write(b"".join(footers) + end)
    parts = []
    position = footer_start
    for footer, (first, last) in zip(footers, pairwise(cuts), strict=True):
        start, own = _start(groups[first]), groups[first:last]
        length = _end(own[-1]) - start
        digest = hashlib.sha256(PARQUET_MAGIC)
        for piece in chain(_pieces(file, start, length), (footer,)):
            digest.update(piece)
        total = len(PARQUET_MAGIC) + length + len(footer)
        parts.append(StoredPart(total, digest.hexdigest(), _statistics(own), start, position, len(footer)))
        position += len(footer)
    return tuple(parts)


def _cuts(ends: Sequence[int]) -> list[int]:
    """Return where parts of similar size begin and end, as numbers of row groups whose last bytes are at `ends`."""
    size = ends[-1]
    count = max(2, round(size / (MAX_FILE_BYTES * 3 / 4)))
    targets = [size * part // count for part in range(1, count)]
    last_groups = (min(range(len(ends)), key=lambda group: abs(ends[group] - target)) for target in targets)
    return sorted({0, len(ends), *(group + 1 for group in last_groups)})


def _offsets(group: Struct) -> list[int]:
    """Return where the columns of a row group begin."""
    columns: list[Struct] = [column[_METADATA][1] for column in group[_COLUMNS][1][1]]
    return [min(each[name][1] for name in (_DATA_OFFSET, _DICTIONARY_OFFSET) if name in each) for each in columns]


def _start(group: Struct) -> int:
    return min(_offsets(group))


def _end(group: Struct) -> int:
    sizes: Iterator[int] = (column[_METADATA][1][_COMPRESSED_BYTES][1] for column in group[_COLUMNS][1][1])
    return max(start + size for start, size in zip(_offsets(group), sizes, strict=True))


def _part_footer(metadata: Struct, groups: Sequence[Struct]) -> bytes:
    moved_by = len(PARQUET_MAGIC) - _start(groups[0])
    moved = [_moved_group(group, number, moved_by) for number, group in enumerate(groups)]
    rows = sum(group[_GROUP_ROWS][1] for group in groups)
    kind, (item_kind, _) = metadata[_GROUPS]
    content = encode({**metadata, _ROWS: (metadata[_ROWS][0], rows), _GROUPS: (kind, (item_kind, moved))})
    return content + len(content).to_bytes(4, "little") + PARQUET_MAGIC


def _moved_group(group: Struct, number: int, moved_by: int) -> Struct:
    kind, (item_kind, columns) = group[_COLUMNS]
    moved = {**group, _COLUMNS: (kind, (item_kind, [_moved_column(column, moved_by) for column in columns]))}
    if _ORDINAL in moved:
        moved[_ORDINAL] = moved[_ORDINAL][0], number
    return _moved(moved, (_GROUP_OFFSET,), moved_by)


def _moved_column(column: Struct, moved_by: int) -> Struct:
    kind, metadata = column[_METADATA]
    kept = {name: value for name, value in metadata.items() if name not in (_BLOOM_OFFSET, _BLOOM_BYTES)}
    moved = _moved(kept, (_DATA_OFFSET, _DICTIONARY_OFFSET), moved_by)
    # Without the page index. The other fields are not written.
    return _moved({_COLUMN_OFFSET: column[_COLUMN_OFFSET], _METADATA: (kind, moved)}, (_COLUMN_OFFSET,), moved_by)


def _moved(fields: Struct, names: Sequence[int], moved_by: int) -> Struct:
    found: dict[int, tuple[int, Any]] = {
        name: (fields[name][0], fields[name][1] + moved_by) for name in names if name in fields and fields[name][1]
    }
    return {**fields, **found}


def _statistics(groups: Sequence[Struct]) -> FileStatistics:
    counts = ([column[_METADATA][1][_STATISTICS][1][_NULLS][1] for column in group[_COLUMNS][1][1]] for group in groups)
    nulls = tuple(map(sum, zip(*counts, strict=True)))
    return FileStatistics(sum(group[_GROUP_ROWS][1] for group in groups), nulls)


def _pieces(file: IO[bytes], start: int, length: int) -> Iterator[bytes]:
    file.seek(start)
    while length:
        piece = file.read(min(_PIECE_BYTES, length))
        length -= len(piece)
        yield piece
