"""Reads a resource's rows: the embedded engine packs them, and they become records in buckets."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from ctypes import c_ubyte
from functools import partial
from itertools import accumulate
from typing import TypeVar

import nanoarrow
from nanoarrow.c_array import CArray

from daybreak.catalogue.columns import ColumnType
from daybreak.export.bounded_map import bounded_map
from daybreak.export.buckets import Buckets, grouped
from daybreak.export.duckdb_internals import packed_row, record_batches
from daybreak.export.line_encoder.partitioner import Divided, Divider, PackedRows, Partitioner
from daybreak.export.line_encoder.pool import Pool
from daybreak.export.line_encoder.records import RecordLayout, packed_text
from daybreak.export.sql import identifier
from daybreak.export.work_tables import WorkTables

BATCH_ROWS = 4096
"""Rows per batch, unless they are large."""
_LARGE_TEXT_BYTES = 8 << 10
_LARGE_ROWS_PER_BATCH = 4
GROUP_BYTES = 4 << 20
"""Size from which packed rows are divided among buckets, unless many threads share little memory."""
_MIN_GROUP_BYTES = 1 << 20

_MAX_DIVIDER_BYTES = 2 << 30
"""Memory from which a divider is not used again: half of what it can have."""

T = TypeVar("T")
D = TypeVar("D", Partitioner, Divider)


class RowPartition:
    """Records of the rows of some Leaders in buckets, each for neighboring Leaders. `leaders` has the number of rows of
    each, sorted by Leader, and the FROM item `rows` may have rows of others.
    """

    def __init__(self, tables: WorkTables, rows: str, leaders: Mapping[str, int], buckets: Buckets) -> None:
        self.leaders, self.buckets = list(leaders), buckets
        self.layout = RecordLayout.of(tables.resource)
        self.identifiers = bytes.fromhex("".join(leaders).replace("-", ""))
        self.bucket_of = _buckets_of(leaders.values(), len(buckets.sizes))
        self._tables, self._rows = tables, rows

    def ordinals(self, buckets: range) -> range:
        """Return the ordinals of the Leaders of neighboring buckets."""
        return range(bisect_left(self.bucket_of, buckets.start), bisect_left(self.bucket_of, buckets.stop))

    def read(self, executor: Executor, threads: int, watch: Callable[[], None]) -> None:
        """Read all rows. `watch` is called between batches, and may raise."""
        count = len(self.buckets.sizes)
        group_bytes = min(GROUP_BYTES, max(_MIN_GROUP_BYTES, self.buckets.max_bytes // (8 * threads)))
        new = partial(Partitioner, self.identifiers, self.bucket_of.tobytes(), count)

        def groups() -> Iterator[list[PackedRows]]:
            for group in grouped(self._packed_rows(group_bytes), lambda rows: len(rows.content), group_bytes):
                watch()
                yield group

        fill_buckets(self.buckets, groups(), new, Partitioner.partition, executor, threads)

    def _packed_rows(self, max_bytes: int) -> Iterator[PackedRows]:
        """Yield all rows in parts of up to `max_bytes`, or single rows, those with large texts last.

        The number of rows in a batch is fixed before their size is known, and the engine packs 2,048 rows at a time.
        Therefore a NULL takes the place of a row with large texts. If there are any, their cells are read again, a few
        per batch. A filter would not help: the engine collects the rows that pass it until it has 2,048.
        """
        columns = {name: identifier(name) for name in self.layout.packed_columns}
        texts = [columns[column.name] for column in self.layout.cells if column.type is ColumnType.TEXT]
        size = " + ".join(f"coalesce(strlen({text}), 0)" for text in texts) or "0"
        # The sum takes several times as long as a look at each text, which nearly always finds a short one.
        has_long = " OR ".join(f"strlen({text}) > {_LARGE_TEXT_BYTES // len(texts)}" for text in texts) or "false"
        is_large = f"CASE WHEN {has_long} THEN {size} > {_LARGE_TEXT_BYTES} END"
        query = f"SELECT {{}} FROM (SELECT *, {is_large} AS is_large FROM {self._rows})"
        packed = f"CASE WHEN is_large THEN NULL ELSE {packed_row(columns.values())} END"
        rows = large_rows = 0
        for batch in record_batches(self._tables.connection.sql(query.format(packed)), BATCH_ROWS):
            rows += batch.length
            large_rows += batch.view().child(0).null_count
            yield from split_batch(batch, max_bytes)
        if large_rows:
            # Without a text, the engine returns short packed rows as numbers.
            cells = (name if name in texts else packed_row([name, "''"]) for name in columns.values())
            query = query.format(", ".join(f"CASE WHEN is_large THEN {cell} END" for cell in cells))
            batch_rows = min(BATCH_ROWS, _LARGE_ROWS_PER_BATCH * rows // large_rows)
            for batch in record_batches(self._tables.connection.sql(query), batch_rows):
                if batch.view().child(0).null_count < batch.length:
                    yield from _packed_large_rows(batch)


def _buckets_of(rows: Collection[int], count: int) -> array[int]:
    """Return the bucket of each Leader: that of its middle row, if all buckets had the same number of rows.

    A Leader with many rows is thus alone in its bucket, between empty ones.
    """
    total = sum(rows)
    return array("I", ((2 * end - own) * count // (2 * total) for own, end in zip(rows, accumulate(rows), strict=True)))


def split_batch(batch: CArray, max_bytes: int) -> Iterator[PackedRows]:
    """Split an Arrow batch of packed rows into single rows or parts of up to `max_bytes`."""
    column = batch.view().child(0)
    offsets = memoryview(column.buffer(1)).cast("B").cast("i")[column.offset : column.offset + batch.length + 1]
    # The buffer's own view is read-only, and can be copied with the interpreter's lock only.
    address = batch.child(0).buffers[2]
    content = memoryview((c_ubyte * column.buffer(2).size_bytes).from_address(address)).cast("B")
    start = 0
    while start < batch.length:
        end = max(start + 1, bisect_right(offsets, offsets[start] + max_bytes) - 1)
        yield PackedRows(offsets[start : end + 1], content[offsets[start] : offsets[end]], batch)
        start = end


def _packed_large_rows(batch: CArray) -> Iterator[PackedRows]:
    """Yield the rows of a batch of cells: texts, and other cells packed with an empty text. Other rows have NULLs."""
    for cells in nanoarrow.Array(batch).iter_tuples():
        if cells[0] is not None:
            content = b"".join(
                cell.removesuffix(packed_text("")) if isinstance(cell, bytes) else packed_text(cell) for cell in cells
            )
            yield PackedRows(memoryview(array("i", (0, len(content)))), memoryview(content), None)


def fill_buckets(
    buckets: Buckets,
    groups: Iterable[T],
    new: Callable[[], D],
    divide: Callable[[D, T], Divided],
    executor: Executor,
    threads: int,
) -> None:
    """Divide groups of rows among buckets in parallel. `new` returns a divider, which one thread uses at a time."""
    dividers = Pool(new, _MAX_DIVIDER_BYTES)

    def divided(group: T) -> Divided:
        divider = dividers.take()
        records = divide(divider, group)
        dividers.give_back(divider)
        return records

    for records in bounded_map(executor, divided, groups, threads + 1):
        buckets.add(*records)
