"""A resource's rows, read from the embedded engine: totals by Leader, then the lines of changed Leaders in order.

The compiled code sorts and encodes lines, where it can be used; SQL does the same elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from itertools import groupby
from typing import Protocol

import duckdb
from nanoarrow.c_array import CArrayView

from daybreak.catalogue.written_sums import figure_names
from daybreak.export.bucket_lines import BucketLines
from daybreak.export.buckets import Buckets, Spill
from daybreak.export.duckdb_internals import record_batches, sort_key_fault
from daybreak.export.engine import memory_bytes, temp_folder
from daybreak.export.leader_chunks import LeaderChunk, LineBundle
from daybreak.export.line_encoder import runtime
from daybreak.export.line_sql import line_query
from daybreak.export.row_figures import row_figures, times
from daybreak.export.row_partition import RowPartition
from daybreak.export.sql import identifier, literal
from daybreak.export.survey import LeaderTotals, RowCounts
from daybreak.export.work_tables import WorkTables

_MAX_BUCKETS = 256
_MIN_BUCKET_SHARE, _MAX_BUCKET_SHARE = 0.15, 0.5
"""Memory of buckets divided by the limit of the engine."""

_BATCH_ROWS = 4096


class LeaderRows(Protocol):
    """Rows of some Leaders."""

    @property
    def spill_bytes(self) -> int:
        """Size of the temporary file."""

    def bundles(self, kinds: Sequence[str]) -> Iterator[LineBundle]:
        """Yield the lines of the Leaders in order, with these kinds of line, and perhaps others. Call it once."""

    def close(self) -> None:
        """Delete the spill."""


def read_leader_rows(
    tables: WorkTables,
    rows: str,
    leaders: Sequence[str],
    non_null: Collection[str],
    executor: Executor,
    threads: int,
    watch: Callable[[], None],
) -> LeaderRows:
    """Read the rows of Leaders, which are sorted. The FROM item `rows` has them, and perhaps others. `non_null` are
    columns without NULLs. `watch` is called regularly, and may raise to stop.
    """
    if runtime.unavailable_reason() is None:
        fault = sort_key_fault(tables.connection)
        if fault is None:
            return _CompiledRows(tables, rows, leaders, executor, threads, watch)
        import structlog

        log = structlog.get_logger("daybreak.export")
        log.warning("export.encoder_unusable", resource=tables.resource.name, reason=fault)
    return _SqlRows(tables, leaders, non_null)


def bucket_memory_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the maximum memory of buckets: less if the engine stores the rows of a resource in memory."""
    limit, used = memory_bytes(connection)
    return int(max(_MIN_BUCKET_SHARE * limit, min(_MAX_BUCKET_SHARE * limit, limit - used)))


class _CompiledRows:
    def __init__(
        self,
        tables: WorkTables,
        rows: str,
        leaders: Sequence[str],
        executor: Executor,
        threads: int,
        watch: Callable[[], None],
    ) -> None:
        self._executor, self._threads = executor, threads
        self._spill = Spill(temp_folder(tables.connection))
        count = max(1, min(len(leaders), _MAX_BUCKETS))
        buckets = Buckets(count, bucket_memory_bytes(tables.connection), self._spill)
        self._partition = RowPartition(tables, rows, leaders, buckets)
        try:
            self._partition.read(executor, threads, watch)
        except BaseException:
            self.close()
            raise

    @property
    def spill_bytes(self) -> int:
        return self._spill.bytes

    def bundles(self, kinds: Sequence[str]) -> Iterator[LineBundle]:
        del kinds
        return BucketLines(self._partition, self._executor, self._threads).bundles()

    def close(self) -> None:
        self._spill.close()


class _SqlRows:
    spill_bytes = 0

    def __init__(self, tables: WorkTables, leaders: Sequence[str], non_null: Collection[str]) -> None:
        self._tables, self._leaders, self._non_null = tables, leaders, non_null

    def bundles(self, kinds: Sequence[str]) -> Iterator[LineBundle]:
        lines = sql_lines(self._tables, self._leaders, kinds, self._non_null)
        yield LineBundle(([chunk] for chunk in lines), is_large=True)

    def close(self) -> None:
        """Do nothing."""


def read_totals(tables: WorkTables, known: Collection[str]) -> tuple[list[LeaderTotals], RowCounts]:
    """Return the totals of known Leaders with rows, sorted, and the counts over all rows.

    Two 64-bit hashes cover a row. They combine the hashes of its cells in opposite order, and are hashed again, because
    the engine combines by XOR: values that two rows exchange could leave the sum unchanged.
    """
    resource, columns = tables.resource, tables.resource.columns
    names = [identifier(column.name) for column in columns]
    checked = [column for column in columns if column.allowed]
    kept, sums = len(figure_names(resource.name)), [f"sum({name})" for name in row_figures(resource)]
    hashes = [f"sum(hash(hash({', '.join(each)})))" for each in (names, names[::-1])]
    counts = [
        *(f"count(*) - count({name})" for name in names),
        *(f"count(*) FILTER ({identifier(c.name)} NOT IN ({', '.join(map(literal, c.allowed))}))" for c in checked),
        *sums[kept:],
    ]
    found, found_counts, unknown_rows = tables.totals([*hashes, *sums[:kept]], counts, known)
    named = zip((*(c.name for c in checked), *times(resource)), found_counts[len(names) :], strict=True)
    totals = [
        LeaderTotals(leader, rows, (first, second), tuple(kept_sums))
        for leader, rows, first, second, *kept_sums in found
    ]
    return totals, RowCounts(
        {column.name: count for column, count in zip(columns, found_counts, strict=False)},
        {name: count for name, count in named if count},
        unknown_rows,
    )


def sql_lines(
    tables: WorkTables, leaders: Sequence[str], kinds: Sequence[str], non_null: Collection[str]
) -> Iterator[LeaderChunk]:
    """Yield the lines of the Leaders in order. `non_null` are columns without NULLs."""
    tables.number_leaders(leaders)
    query = f"SELECT ordinal, r.* FROM {tables.numbered_rows()} ORDER BY ordinal, {tables.row_order}"
    lines = tables.connection.sql(line_query(query, tables.resource, kinds, non_null))
    for batch in record_batches(lines, _BATCH_ROWS):
        view = batch.view()
        offsets = {kind: _int32_values(view.child(place), batch.length + 1) for place, kind in enumerate(kinds, 1)}
        contents = {kind: memoryview(view.child(place).buffer(2)).cast("B") for place, kind in enumerate(kinds, 1)}
        start = 0
        for ordinal, group in groupby(_int32_values(view.child(0), batch.length)):
            end = start + sum(1 for _ in group)
            # A view does not keep its batch in memory.
            own = {kind: bytes(contents[kind][each[start] : each[end]]) for kind, each in offsets.items()}
            yield LeaderChunk(leaders[ordinal], end - start, {kind: memoryview(each) for kind, each in own.items()})
            start = end


def _int32_values(column: CArrayView, length: int) -> memoryview:
    """Return the first `length` values of an int32 buffer of a column: values, or offsets of texts."""
    return memoryview(column.buffer(1)).cast("B").cast("i")[column.offset : column.offset + length]
