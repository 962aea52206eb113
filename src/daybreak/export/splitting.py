"""Batches of ordered lines, cut where the Leader changes.

Nothing is copied: a Leader's lines lie next to each other in one buffer, and what comes out are memoryviews into it.
A view does not keep the buffer alive, so each run carries its owner.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from daybreak.domain.errors import SourceError
from daybreak.export.line_batch import LineBatch


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring rows of one Leader: `lines` are their bytes, one view for each kind of line, by its name.

    `owner` must be held for as long as a view is in use, or the memory goes away under it.
    """

    ordinal: int
    rows: int
    lines: Mapping[str, memoryview]
    owner: object


def runs(batches: Iterable[LineBatch]) -> Iterator[Run]:
    """Cuts batches into runs of one ordinal.

    A Leader may come in several runs when its rows span batches, but only one after the other.
    Raises SourceError when an ordinal comes back or goes down: then the rows were not in order.
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
                    "The rows did not come in the order of Leaders: one came back after another "
                    "had begun. Nothing of this run is used."
                )
            last = ordinal
            end = bisect_right(ordinals, ordinal, start, length)
            # bisect trusts the order; this does not.
            if bytes(ordinals[start:end]) != int(ordinal).to_bytes(4, "little") * (end - start):
                raise SourceError("The rows of two Leaders came mixed. Nothing of this run is used.")
            lines = {name: content[bounds[start] : bounds[end]] for name, (bounds, content) in batch.lines.items()}
            yield Run(ordinal, end - start, lines, batch.owner)
            start = end
