"""A resource's rows, read from the embedded engine: totals by Leader, and lines in file order.

The compiled code reads rows once, where it can be used; SQL does the same elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from typing import Protocol

import duckdb
import structlog

from daybreak.export.bucket_lines import BucketLines
from daybreak.export.buckets import Buckets, Spill
from daybreak.export.duckdb_internals import sort_key_fault
from daybreak.export.engine import memory_limit_bytes, memory_used_bytes, temp_folder
from daybreak.export.leader_chunks import LineBundle
from daybreak.export.line_encoder import runtime
from daybreak.export.row_partition import RowPartition
from daybreak.export.sql_lines import sql_lines, sql_totals
from daybreak.export.survey import LeaderTotals, RowCounts
from daybreak.export.work_tables import WorkTables

_log = structlog.get_logger("daybreak.export")
_MAX_BUCKETS = 256
_MIN_BUCKET_SHARE, _MAX_BUCKET_SHARE = 0.15, 0.5
"""Memory of buckets divided by the limit of the engine."""


class LeaderRows(Protocol):
    """Rows of known Leaders. `totals` has those with rows, sorted."""

    totals: list[LeaderTotals]
    counts: RowCounts

    @property
    def spill_bytes(self) -> int:
        """Size of the temporary file."""

    def bundles(self, wanted: Collection[str], kinds: Sequence[str]) -> Iterator[LineBundle]:
        """Yield the lines of wanted Leaders, with these kinds of line, and perhaps others. Call it once."""

    def close(self) -> None:
        """Delete the spill."""


def read_leader_rows(
    tables: WorkTables, known: Sequence[str], executor: Executor, threads: int, watch: Callable[[], None]
) -> LeaderRows:
    """Read the rows of known Leaders, sorted. `watch` is called regularly, and may raise to stop."""
    if runtime.unavailable_reason() is None:
        fault = sort_key_fault(tables.connection)
        if fault is None:
            return _CompiledRows(tables, known, executor, threads, watch)
        _log.warning("export.encoder_unusable", resource=tables.resource.name, reason=fault)
    return _SqlRows(tables, known)


def bucket_memory_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the maximum memory of buckets: less if the engine stores the rows of a resource in memory."""
    limit = memory_limit_bytes(connection)
    unused = limit - memory_used_bytes(connection)
    return int(max(_MIN_BUCKET_SHARE * limit, min(_MAX_BUCKET_SHARE * limit, unused)))


class _CompiledRows:
    def __init__(
        self, tables: WorkTables, known: Sequence[str], executor: Executor, threads: int, watch: Callable[[], None]
    ) -> None:
        self._executor, self._threads = executor, threads
        self._spill = Spill(temp_folder(tables.connection))
        count = max(1, min(len(known), _MAX_BUCKETS))
        buckets = Buckets(count, bucket_memory_bytes(tables.connection), self._spill)
        self._partition = RowPartition(tables, known, buckets)
        try:
            self._partition.read(executor, threads, watch)
        except BaseException:
            self.close()
            raise
        self.totals, self.counts = self._partition.totals, self._partition.counts

    @property
    def spill_bytes(self) -> int:
        return self._spill.bytes

    def bundles(self, wanted: Collection[str], kinds: Sequence[str]) -> Iterator[LineBundle]:
        del kinds
        return BucketLines(self._partition, wanted, self._executor, self._threads).bundles()

    def close(self) -> None:
        self._spill.close()


class _SqlRows:
    spill_bytes = 0

    def __init__(self, tables: WorkTables, known: Sequence[str]) -> None:
        self._tables = tables
        self.totals, self.counts = sql_totals(tables, frozenset(known))

    def bundles(self, wanted: Collection[str], kinds: Sequence[str]) -> Iterator[LineBundle]:
        non_null = [name for name, count in self.counts.nulls.items() if not count]
        leaders = [one.client_id for one in self.totals if one.client_id in wanted]
        yield LineBundle(([chunk] for chunk in sql_lines(self._tables, leaders, kinds, non_null)), is_large=True)

    def close(self) -> None:
        """Do nothing."""
