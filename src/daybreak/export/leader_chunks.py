"""Splits batches of ordered lines where the Leader changes.

Lines are not copied. The lines of one Leader are contiguous in a buffer, and a chunk is a set of views into it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from daybreak.domain.errors import SourceError
from daybreak.export.line_batch import LineBatch


@dataclass(frozen=True, slots=True)
class LeaderChunk:
    """Lines of neighboring rows of one Leader: one view per kind of line.

    `ordinal` is the Leader's position in the export. Keep a reference to `owner` while a view is in use: it owns the
    memory.
    """

    ordinal: int
    rows: int
    lines: Mapping[str, memoryview]
    owner: object


def split_by_leader(batches: Iterable[LineBatch]) -> Iterator[LeaderChunk]:
    """Yield the chunks of each batch. Rows of one Leader that span batches come in consecutive chunks.

    Raises SourceError when rows are not ordered by ordinal.
    """
    last = -1
    for batch in batches:
        ordinals = batch.ordinals
        length = len(ordinals)
        start = 0
        while start < length:
            ordinal = ordinals[start]
            if ordinal < last:
                raise SourceError(
                    "The rows are not sorted by Leader: the rows of one Leader are not contiguous. Start the run "
                    "again, and report the error if it recurs."
                )
            last = ordinal
            end = bisect_right(ordinals, ordinal, start, length)
            # bisect assumes sorted rows. This condition verifies the order.
            if bytes(ordinals[start:end]) != int(ordinal).to_bytes(4, "little") * (end - start):
                raise SourceError(
                    "The rows of two Leaders are mixed. Start the run again, and report the error if it recurs."
                )
            lines = {kind: content[offsets[start] : offsets[end]] for kind, (offsets, content) in batch.lines.items()}
            yield LeaderChunk(ordinal, end - start, lines, batch.owner)
            start = end
