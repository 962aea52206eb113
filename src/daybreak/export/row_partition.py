"""Reads a resource's rows once: the embedded engine packs them, and they become records in buckets, and totals."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from uuid import UUID

from nanoarrow.c_array import CArray

from daybreak.export.bounded_map import bounded_map
from daybreak.export.buckets import Buckets
from daybreak.export.duckdb_internals import packed_row, record_batches
from daybreak.export.line_encoder.partitioner import PackedRows, Partitioner, Slices
from daybreak.export.line_encoder.records import RecordLayout
from daybreak.export.sql import identifier
from daybreak.export.survey import SUM_MODULUS, LeaderTotals, RowCounts
from daybreak.export.work_tables import WorkTables

BATCH_ROWS = 4096
"""Rows per batch, unless they are large."""
_LARGE_ROW_BYTES = 8 << 10
_LARGE_ROWS_PER_BATCH = 4
GROUP_BYTES = 2 << 20
"""Size from which packed rows are divided among buckets."""


class RowPartition:
    """Records of the rows of known Leaders in buckets, each for neighboring Leaders. `leaders` are all of them, sorted.

    `totals` has the Leaders with rows.
    """

    def __init__(self, tables: WorkTables, leaders: Sequence[str], buckets: Buckets) -> None:
        self.leaders, self.buckets = leaders, buckets
        self.layout = RecordLayout.of(tables.resource)
        self.identifiers = b"".join(UUID(leader).bytes for leader in leaders)
        count = len(buckets.sizes)
        self.bucket_of = [place * count // len(leaders) for place in range(len(leaders))]
        self.totals: list[LeaderTotals] = []
        self.counts = RowCounts()
        self._tables = tables

    def ordinals(self, bucket: int) -> range:
        """Return the ordinals of a bucket's Leaders."""
        return range(bisect_left(self.bucket_of, bucket), bisect_right(self.bucket_of, bucket))

    def read(self, executor: Executor, threads: int, watch: Callable[[], None]) -> None:
        """Read all rows. `watch` is called between batches, and may raise. Raises RunError for a malformed row."""
        bucket_of = struct.pack(f"<{len(self.leaders)}I", *self.bucket_of)

        def new() -> Partitioner:
            return Partitioner(self.layout, self.identifiers, bucket_of, len(self.buckets.sizes))

        partitioners = deque([new()])

        def partition(rows: Sequence[PackedRows]) -> Slices:
            try:
                partitioner = partitioners.pop()
            except IndexError:
                partitioner = new()
            slices = partitioner.partition(rows)
            partitioners.append(partitioner)
            return slices

        groups = _grouped(rows for batch in self._packed_batches() for rows in split_batch(batch))
        for slices in bounded_map(executor, partition, groups, threads + 1):
            watch()
            self.buckets.add(slices)
        self._add_totals(partitioners)

    def _packed_batches(self) -> Iterator[CArray]:
        """Yield batches of packed rows. A NULL takes the place of a large row. If there are any, they are read again, a
        few per batch, because the number of rows in a batch is fixed before their size is known.

        A filter in place of NULLs would not help: the engine collects the rows that pass it until it has 2,048.
        """
        row = packed_row(map(identifier, self.layout.packed_columns))
        query = (
            f"SELECT CASE WHEN octet_length(packed) {{}} {_LARGE_ROW_BYTES} THEN packed END "
            f"FROM (SELECT {row} AS packed FROM {self._tables.ROWS})"
        )
        rows = large_rows = 0
        for batch in record_batches(self._tables.connection.sql(query.format("<=")), BATCH_ROWS):
            rows += batch.length
            large_rows += batch.view().child(0).null_count
            yield batch
        if large_rows:
            batch_rows = min(BATCH_ROWS, _LARGE_ROWS_PER_BATCH * rows // large_rows)
            yield from record_batches(self._tables.connection.sql(query.format(">")), batch_rows)

    def _add_totals(self, partitioners: Iterable[Partitioner]) -> None:
        words = [sum(values) for values in zip(*(one.totals() for one in partitioners), strict=True)]
        for place, client_id in enumerate(self.leaders):
            rows, _, first, second = words[4 * place : 4 * place + 4]
            if rows:
                self.totals.append(
                    LeaderTotals(client_id, rows, (first % SUM_MODULUS, second % SUM_MODULUS), "murmur3")
                )
        rows = sum(one.rows for one in self.totals)
        cells = zip(*(one.cell_counts() for one in partitioners), strict=True)
        counts = {
            column.name: (sum(present for present, _ in each), sum(unexpected for _, unexpected in each))
            for column, each in zip(self.layout.cells, cells, strict=True)
        }
        self.counts = RowCounts(
            {name: rows - counts[name][0] if name in counts else 0 for name in self.layout.resource.column_names},
            {name: unexpected for name, (_, unexpected) in counts.items() if unexpected},
            words[4 * len(self.leaders)],
        )


def split_batch(batch: CArray) -> Iterator[PackedRows]:
    """Split an Arrow batch of packed rows into single rows or parts of up to `GROUP_BYTES`."""
    column = batch.view().child(0)
    offsets = memoryview(column.buffer(1)).cast("B").cast("i")[column.offset : column.offset + batch.length + 1]
    content = memoryview(column.buffer(2)).cast("B")
    start = 0
    while start < batch.length:
        end = max(start + 1, bisect_right(offsets, offsets[start] + GROUP_BYTES) - 1)
        yield PackedRows(offsets[start : end + 1], content[offsets[start] : offsets[end]], batch)
        start = end


def _grouped(parts: Iterable[PackedRows]) -> Iterator[list[PackedRows]]:
    group: list[PackedRows] = []
    for rows in parts:
        group.append(rows)
        if sum(len(one.content) for one in group) >= GROUP_BYTES:
            yield group
            group = []
    if group:
        yield group
