"""The rows that pass through Spark from the tasks that make a split Leader's lines to the one that joins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa

from daybreak.export.ranges import RangeFigures
from daybreak.export.splitting import Run

RANGE_ROWS = "place int, kind int, range int, position int, row_count int, figures string, csv binary, json binary"
"""`place` is the Leader's among the split ones. A range of it gives one row of figures (kind 0), then rows of lines."""
RANGE_ORDER = ("place", "kind", "range", "position")
_FIGURES, _LINES = 0, 1
_SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in (*RANGE_ORDER, "row_count")),
        ("figures", pa.string()),
        ("csv", pa.binary()),
        ("json", pa.binary()),
    ]
)


def figures_row(place: int, number: int, figures: RangeFigures) -> pa.RecordBatch:
    """The figures of range `number` of a Leader."""
    return _row(place, _FIGURES, number, 0, 0, figures=msgspec.json.encode(figures).decode())


def lines_row(place: int, number: int, position: int, run: Run, columns: Sequence[str]) -> pa.RecordBatch:
    """The lines of a run, the `position`-th of its range, of these kinds."""
    return _row(place, _LINES, number, position, run.rows, **{name: bytes(run.lines[name]) for name in columns})


def joined_leaders(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[list[RangeFigures], Iterator[Run]]]:
    """The rows of whole Leaders in RANGE_ORDER, as figures and lines. A Leader's lines must be taken before the next
    Leader is asked for.
    """
    rows = ((batch, index) for batch in batches for index in range(batch.num_rows))
    for _, own in groupby(rows, key=lambda row: _cell("place", *row)):
        kinds = groupby(own, key=lambda row: _cell("kind", *row))
        _, first = next(kinds)
        figures = [msgspec.json.decode(_cell("figures", *row), type=RangeFigures) for row in first]
        yield figures, (_run(*row) for _, lines in kinds for row in lines)


def _row(place: int, kind: int, number: int, position: int, row_count: int, **others: str | bytes) -> pa.RecordBatch:
    cells: dict[str, Any] = {
        "place": place, "kind": kind, "range": number, "position": position, "row_count": row_count, **others,
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([cells], schema=_SCHEMA)


def _cell(name: str, batch: pa.RecordBatch, index: int) -> Any:
    return batch.column(name)[index].as_py()


def _run(batch: pa.RecordBatch, index: int) -> Run:
    """Views into the batch, which the run holds."""
    lines = {
        name: memoryview(batch.column(name)[index].as_buffer()).cast("B")
        for name in ("csv", "json")
        if batch.column(name)[index].is_valid
    }
    return Run(0, _cell("row_count", batch, index), lines, batch)
