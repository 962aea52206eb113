"""Spark rows with the lines of a split Leader, from the tasks that encode ranges to the task that joins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa

from daybreak.export.key_ranges import LeaderRange
from daybreak.export.leader_chunks import LeaderChunk

RANGE_SCHEMA = "place int, kind int, range int, position int, row_count int, totals string, csv binary, json binary"
"""`place` numbers the split Leaders. Each range is one row with its totals (kind 0), then rows of lines (kind 1)."""
RANGE_ORDER = ("place", "kind", "range", "position")
_TOTALS, _LINES = 0, 1
_ARROW_SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in (*RANGE_ORDER, "row_count")),
        ("totals", pa.string()),
        ("csv", pa.binary()),
        ("json", pa.binary()),
    ]
)


def totals_row(place: int, number: int, leader_range: LeaderRange) -> pa.RecordBatch:
    """Return the row of totals of a Leader's range `number`."""
    return _row(place, _TOTALS, number, totals=msgspec.json.encode(leader_range).decode())


def lines_row(place: int, number: int, position: int, chunk: LeaderChunk, kinds: Sequence[str]) -> pa.RecordBatch:
    """Return a row of lines: the chunk at `position` of range `number`, with these kinds of line."""
    lines = {kind: bytes(chunk.lines[kind]) for kind in kinds}
    return _row(place, _LINES, number, position=position, row_count=chunk.rows, **lines)


def split_leaders(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[list[LeaderRange], Iterator[LeaderChunk]]]:
    """Yield the ranges and chunks of each Leader, from rows in RANGE_ORDER. Consume the chunks of one Leader before you
    request the next Leader.
    """
    rows = ((batch, index) for batch in batches for index in range(batch.num_rows))
    for _, leader_rows in groupby(rows, key=lambda row: _cell("place", *row)):
        kinds = groupby(leader_rows, key=lambda row: _cell("kind", *row))
        _, totals = next(kinds)
        ranges = [msgspec.json.decode(_cell("totals", *row), type=LeaderRange) for row in totals]
        yield ranges, (_chunk(ranges[0].totals.client_id, *row) for _, lines in kinds for row in lines)


def _row(
    place: int, kind: int, number: int, *, position: int = 0, row_count: int = 0, **cells: str | bytes
) -> pa.RecordBatch:
    row: dict[str, Any] = {"place": place, "kind": kind, "range": number, "position": position, "row_count": row_count}
    return pa.RecordBatch.from_pylist([row | cells], schema=_ARROW_SCHEMA)


def _cell(name: str, batch: pa.RecordBatch, index: int) -> Any:
    return batch.column(name)[index].as_py()


def _chunk(client_id: str, batch: pa.RecordBatch, index: int) -> LeaderChunk:
    lines = {
        kind: memoryview(batch.column(kind)[index].as_py())
        for kind in ("csv", "json")
        if batch.column(kind)[index].is_valid
    }
    return LeaderChunk(client_id, _cell("row_count", batch, index), lines)
