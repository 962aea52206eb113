"""Sorts rows in several passes where that needs less memory or less work than one sort.

Leaders with wide rows: the engine's sort spills to disk, but merges several blocks of 2,048 rows at a time. With rows
of several kilobytes, these blocks exceed the memory limit. Such Leaders are exported last and sorted in groups that fit
within the limit. Each pass scans the source again. If fewer than 2,048 rows fit into a pass, they leave the engine in
one batch. The batch takes memory in addition to the engine's, so these passes are smaller.

The other Leaders are sorted together, and the sort can spill. If the source is clustered by Leader, they are sorted in
passes instead: each pass reads little more than its own rows, and none spills.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from daybreak.export.duckdb_internals import VECTOR_ROWS, scanned_row_groups
from daybreak.export.engine import memory_limit_bytes
from daybreak.export.sql import identifier, literal
from daybreak.export.survey import SurveyedLeader
from daybreak.export.work_tables import WorkTables

WIDE_ROW_BYTES = 1_500
"""Average bytes of text per row above which a Leader's rows are wide."""
WIDE_PASS_SHARE = 4
HUGE_PASS_SHARE = 16
"""Divisors of the memory limit: maximum size of a pass of wide rows, and of rows that leave the engine in one batch."""
_ROW_OVERHEAD_BYTES = 300
"""Approximate memory of a row in a sort, in addition to its texts."""
_MAX_EXTRA_SCAN = 1.5
"""Maximum share of the source that all passes together may scan. Above it, one sort takes less work."""


def wide_leaders_last(leaders: Sequence[SurveyedLeader]) -> list[SurveyedLeader]:
    """Return the Leaders in the order of their export: those with wide rows after the others."""
    return sorted(leaders, key=_is_wide)


def sort_passes(tables: WorkTables, leaders: Sequence[SurveyedLeader]) -> Iterator[str]:
    """Yield the SQL condition of each pass, over `ordinal` and the resource's columns, in the order of the export.

    `leaders` are in the order of `wide_leaders_last` and numbered in that order.
    """
    narrow = next((at for at, leader in enumerate(leaders) if _is_wide(leader)), len(leaders))
    memory_bytes = memory_limit_bytes(tables.connection)
    yield from _narrow_passes(tables, leaders[:narrow], memory_bytes)
    if any(_sort_bytes(leader) > _max_pass_bytes(leader, memory_bytes) for leader in leaders[narrow:]):
        with tables.measured_rows():
            yield from _wide_passes(tables, leaders, narrow, memory_bytes)
    else:
        yield from _wide_passes(tables, leaders, narrow, memory_bytes)


def _narrow_passes(tables: WorkTables, leaders: Sequence[SurveyedLeader], memory_bytes: int) -> list[str]:
    if sum(map(_sort_bytes, leaders)) > memory_bytes:
        passes = [_between(first, last) for first, last in _groups(leaders, 0, memory_bytes)]
        if _is_clustered(tables, passes):
            return passes
    return [_between(0, len(leaders) - 1)] if leaders else []


def _wide_passes(tables: WorkTables, leaders: Sequence[SurveyedLeader], start: int, memory_bytes: int) -> Iterator[str]:
    for first, last in _groups(leaders, start, memory_bytes):
        max_bytes = _max_pass_bytes(leaders[first], memory_bytes)
        if _sort_bytes(leaders[first]) > max_bytes:
            yield from _key_ranges(tables, first, leaders[first], max_bytes)
        else:
            yield _between(first, last)


def _is_clustered(tables: WorkTables, passes: Sequence[str]) -> bool:
    """Return whether all passes together read little more than one scan of the source, measured on the Leader column.

    The engine skips row groups whose Leaders are outside the range. The measurement ends at the first pass that reads
    most of them.
    """
    scanned = 0
    for condition in passes:
        own, total = scanned_row_groups(
            tables.connection, f"SELECT count(*) FROM {tables.numbered_rows()} WHERE {condition}"
        )
        scanned += own
        if own > total // 2 or scanned > _MAX_EXTRA_SCAN * total:
            return False
    return True


def _groups(leaders: Sequence[SurveyedLeader], start: int, memory_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each group of adjacent Leaders, from `start` on, whose rows fit into one pass. A Leader
    whose rows do not fit has a separate group.
    """
    first, size = start, 0
    for at in range(start, len(leaders)):
        own = _sort_bytes(leaders[at])
        max_bytes = min(_max_pass_bytes(leaders[first], memory_bytes), _max_pass_bytes(leaders[at], memory_bytes))
        if first < at and size + own > max_bytes:
            yield first, at - 1
            first, size = at, 0
        size += own
    if first < len(leaders):
        yield first, len(leaders) - 1


def _key_ranges(tables: WorkTables, ordinal: int, leader: SurveyedLeader, max_bytes: int) -> Iterator[str]:
    """Yield the conditions that split one Leader by ranges of the first column of the key, using ROW_LENGTHS."""
    key = identifier(tables.resource.key[0])
    ends = tables.connection.execute(
        f"SELECT CAST(max(key) AS VARCHAR) FROM (SELECT key, sum(length + {_ROW_OVERHEAD_BYTES}) "
        f"OVER (ORDER BY key NULLS FIRST ROWS UNBOUNDED PRECEDING) // {max_bytes} AS part "
        f"FROM {tables.ROW_LENGTHS} WHERE leader_id = CAST($1 AS UUID)) GROUP BY part ORDER BY part",
        [leader.client_id],
    ).fetchall()
    bounds = [None, *dict.fromkeys(end for (end,) in ends[:-1] if end is not None), None]
    for after, upto in pairwise(bounds):
        conditions = [f"ordinal = {ordinal}"]
        if after is not None:
            conditions.append(f"{key} > {literal(after)}")
        if upto is not None:
            conditions.append(
                f"({key} <= {literal(upto)} OR {key} IS NULL)" if after is None else f"{key} <= {literal(upto)}"
            )
        yield " AND ".join(conditions)


def _between(first: int, last: int) -> str:
    return f"ordinal BETWEEN {first} AND {last}"


def _is_wide(leader: SurveyedLeader) -> bool:
    return leader.text_bytes > WIDE_ROW_BYTES * leader.rows


def _max_pass_bytes(leader: SurveyedLeader, memory_bytes: int) -> int:
    """Return the maximum bytes of the Leader's rows in one pass."""
    max_bytes = memory_bytes // WIDE_PASS_SHARE
    leaves_in_one_batch = _sort_bytes(leader) * VECTOR_ROWS > leader.rows * max_bytes
    return memory_bytes // HUGE_PASS_SHARE if leaves_in_one_batch else max_bytes


def _sort_bytes(leader: SurveyedLeader) -> int:
    return leader.text_bytes + _ROW_OVERHEAD_BYTES * leader.rows
