"""The lines of a resource's rows, which are read from the embedded engine, in the order of files.

The compiled code sorts and encodes lines, where it can be used; SQL does the same elsewhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from itertools import groupby

import duckdb
from nanoarrow.c_array import CArrayView

from daybreak.export.bucket_lines import BucketLines
from daybreak.export.buckets import Buckets, Spill
from daybreak.export.duckdb_internals import record_batches, sort_key_fault
from daybreak.export.engine import memory_bytes
from daybreak.export.leader_chunks import LeaderChunk, LineBundle
from daybreak.export.line_encoder import runtime
from daybreak.export.line_sql import LINE_KINDS, line_query
from daybreak.export.row_partition import RowPartition
from daybreak.export.work_tables import WorkTables

_MAX_BUCKETS = 256
_MIN_BUCKET_SHARE, _MAX_BUCKET_SHARE = 0.15, 0.5
"""Memory of buckets divided by the limit of the engine."""

_BATCH_ROWS = 4096


def leader_bundles(
    tables: WorkTables,
    rows: str,
    leaders: Mapping[str, int],
    spill: Spill,
    executor: Executor,
    threads: int,
    watch: Callable[[], None],
) -> Iterator[LineBundle]:
    """Read the rows of Leaders, and return their lines in order. `leaders` has the number of rows of each, sorted by
    Leader. The FROM item `rows` has the rows, and perhaps others. `watch` is called regularly, and may raise to stop.
    """
    if runtime.unavailable_reason() is None:
        fault = sort_key_fault(tables.connection)
        if fault is None:
            count = max(1, min(len(leaders), _MAX_BUCKETS))
            buckets = Buckets(count, bucket_memory_bytes(tables.connection), spill)
            partition = RowPartition(tables, rows, leaders, buckets)
            partition.read(executor, threads, watch)
            return BucketLines(partition, executor, threads).bundles()
        import structlog

        log = structlog.get_logger("daybreak.export")
        log.warning("export.encoder_unusable", resource=tables.resource.name, reason=fault)
    return iter([LineBundle(sql_lines(tables, list(leaders)), is_large=True)])


def bucket_memory_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the maximum memory of buckets: less if the engine stores the rows of a resource in memory."""
    limit, used = memory_bytes(connection)
    return int(max(_MIN_BUCKET_SHARE * limit, min(_MAX_BUCKET_SHARE * limit, limit - used)))


def sql_lines(tables: WorkTables, leaders: Sequence[str]) -> Iterator[list[LeaderChunk]]:
    """Yield the lines of the Leaders in order."""
    tables.number_leaders(leaders)
    query = f"SELECT ordinal, r.* FROM {tables.numbered_rows()} ORDER BY ordinal, {tables.row_order}"
    lines = tables.connection.sql(line_query(query, tables.resource))
    for batch in record_batches(lines, _BATCH_ROWS):
        ordinals, *texts = (batch.view().child(place) for place in range(len(LINE_KINDS) + 1))
        views = [(memoryview(each.buffer(2)).cast("B"), _int32_values(each, batch.length + 1)) for each in texts]
        chunks, start = [], 0
        for ordinal, group in groupby(_int32_values(ordinals, batch.length)):
            end = start + sum(1 for _ in group)
            # A view does not keep its batch in memory.
            own = (memoryview(bytes(content[offsets[start] : offsets[end]])) for content, offsets in views)
            chunks.append(LeaderChunk(leaders[ordinal], end - start, dict(zip(LINE_KINDS, own, strict=True))))
            start = end
        yield chunks


def _int32_values(column: CArrayView, length: int) -> memoryview:
    """Return the first `length` values of an int32 buffer of a column: values, or offsets of texts."""
    return memoryview(column.buffer(1)).cast("B").cast("i")[column.offset : column.offset + length]
