"""Arrow batches of ordered lines, cut where the Leader changes.

Nothing is copied: a Leader's lines lie next to each other in one string buffer, and what comes
out are memoryviews into it. A view does not keep the buffer alive, so each run carries its owner.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nanoarrow

from daybreak.domain.errors import SourceError


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring rows of one Leader: `lines` are their bytes, one view per line column, by its name.

    `owner` must be held for as long as a view is in use, or the memory goes away under it.
    """

    ordinal: int
    rows: int
    lines: Mapping[str, memoryview]
    owner: object


def record_batches(relation: Any, rows_per_batch: int) -> Iterator[Any]:
    """The relation's batches as they are made, of about that many rows.

    The public Arrow stream has no size to choose and always takes 131,072 rows, which is more
    than the memory limit when rows are wide; so the stream is asked for one level below.
    """
    capsule = relation._submit("stream", rows_per_batch).arrow_capsule()  # noqa: SLF001
    yield from nanoarrow.c_array_stream(_Capsule(capsule))


@dataclass(frozen=True, slots=True)
class _Capsule:
    stream: object

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.stream


def runs(batches: Iterator[Any], line_columns: Sequence[str]) -> Iterator[Run]:
    """Cuts batches of (ordinal INTEGER, line VARCHAR, ...) into runs of one ordinal.

    A Leader may come in several runs when its rows span batches, but only one after the other.
    Raises SourceError when an ordinal comes back or goes down: then the rows were not in order.
    """
    last = -1
    for batch in batches:
        length = batch.length
        if length == 0:
            continue
        view = batch.view()
        ordinals = _values(view.child(0), length)
        columns = {name: _strings(view.child(index), length) for index, name in enumerate(line_columns, start=1)}
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
            lines = {name: data[offsets[start] : offsets[end]] for name, (offsets, data) in columns.items()}
            yield Run(ordinal, end - start, lines, batch)
            start = end


def _values(child: Any, length: int) -> memoryview:
    offset = child.offset
    return memoryview(child.buffer(1)).cast("B").cast("i")[offset : offset + length]


def _strings(child: Any, length: int) -> tuple[memoryview, memoryview]:
    offset = child.offset
    offsets = memoryview(child.buffer(1)).cast("B").cast("i")[offset : offset + length + 1]
    return offsets, memoryview(child.buffer(2)).cast("B")
