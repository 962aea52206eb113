"""Rows are put in order in passes when that costs less memory or less work than all at once.

Leaders with wide rows: the engine's sort spills to disk, but what it merges it holds in blocks of 2,048 rows, several
of them at once. When a row is kilobytes wide, these do not fit in the memory it may have. So they come last, and their
rows are sorted some at a time, as many as fit, each pass reading the source once more. Rows so wide that no pass has
2,048 of them leave the engine in one batch, which is memory beside the engine's: of these, a pass takes fewer.

The others are sorted at once and spill, unless they lie Leader by Leader in the source: then each pass reads little
more than its own rows, and none spills.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.export.engine import engine_memory_bytes
from daybreak.export.lines import literal, quoted
from daybreak.export.survey import LeaderRows

WIDE_ROW_BYTES = 1_500
PASS_SHARE = 4
HUGE_SHARE = 16
_LITTLE_MORE = 1.5
_BLOCK_ROWS = 2048
_ROW_BYTES = 300
"""What a row takes in the sort besides its texts, about."""


def wide_last(leaders: Sequence[LeaderRows]) -> list[LeaderRows]:
    """The Leaders in the order in which they are to be made: as they come, those with wide rows after the others."""
    return sorted(leaders, key=_is_wide)


def passes(cursor: Any, relation: str, resource: Resource, wanted: Sequence[LeaderRows]) -> Iterator[str]:
    """SQL conditions over `ordinal` and the resource's columns: each takes the rows of one pass, in their order.

    `wanted` are in the order of `wide_last`, which gives their ordinals.
    """
    narrow = next((at for at, leader in enumerate(wanted) if _is_wide(leader)), len(wanted))
    memory_bytes = engine_memory_bytes(cursor)
    yield from _narrow_passes(cursor, relation, wanted[:narrow], memory_bytes)
    in_parts = any(_sort_bytes(leader) > _fits(leader, memory_bytes) for leader in wanted[narrow:])
    if in_parts:
        _measure_rows(cursor, relation, resource)
    for first, last in _ranges(wanted, narrow, memory_bytes):
        fits = _fits(wanted[first], memory_bytes)
        if _sort_bytes(wanted[first]) > fits:
            yield from _parts(cursor, resource, first, wanted[first], fits)
        else:
            yield _between(first, last)
    if in_parts:
        cursor.execute("DROP TABLE row_lengths")


def _narrow_passes(cursor: Any, relation: str, leaders: Sequence[LeaderRows], memory_bytes: int) -> list[str]:
    if sum(map(_sort_bytes, leaders)) > memory_bytes:
        ranges = [_between(first, last) for first, last in _ranges(leaders, 0, memory_bytes)]
        if _lie_together(cursor, relation, ranges):
            return ranges
    return [_between(0, len(leaders) - 1)] if leaders else []


def _lie_together(cursor: Any, relation: str, ranges: Sequence[str]) -> bool:
    """Whether all passes together read little more of the source than one reading does: tried with the Leaders' column
    alone. The engine leaves out row groups whose least and greatest Leader are not in the range; the first pass that
    reads most of them all the same is the last to be tried.
    """
    read = 0
    for only in ranges:
        ((_, told),) = cursor.execute(
            f"EXPLAIN (ANALYZE, FORMAT json) SELECT count(*) FROM {relation} AS rows "
            f'JOIN wanted_leaders ON wanted_leaders.wanted_id = rows."LEADER_ID" WHERE {only}'
        ).fetchall()
        figures = json.loads(told)["query"]
        own, everything = figures["total_row_groups_scanned"], figures["total_row_groups_to_scan"]
        read += own
        if own > everything // 2 or read > _LITTLE_MORE * everything:
            return False
    return True


def _ranges(leaders: Sequence[LeaderRows], begin: int, memory_bytes: int) -> Iterator[tuple[int, int]]:
    """(first, last) of neighbours from `begin` on whose rows fit together; one whose rows do not is by itself."""
    first, size = begin, 0
    for at in range(begin, len(leaders)):
        own = _sort_bytes(leaders[at])
        fits = min(_fits(leaders[first], memory_bytes), _fits(leaders[at], memory_bytes))
        if first < at and size + own > fits:
            yield first, at - 1
            first, size = at, 0
        size += own
    if first < len(leaders):
        yield first, len(leaders) - 1


def _between(first: int, last: int) -> str:
    return f"ordinal BETWEEN {first} AND {last}"


def _is_wide(leader: LeaderRows) -> bool:
    return leader.text_bytes > WIDE_ROW_BYTES * leader.rows


def _fits(leader: LeaderRows, memory_bytes: int) -> int:
    """Bytes that one pass may sort of the Leader's rows."""
    fits = memory_bytes // PASS_SHARE
    is_huge = _sort_bytes(leader) * _BLOCK_ROWS > leader.rows * fits
    return memory_bytes // HUGE_SHARE if is_huge else fits


def _sort_bytes(leader: LeaderRows) -> int:
    return leader.text_bytes + _ROW_BYTES * leader.rows


def _measure_rows(cursor: Any, relation: str, resource: Resource) -> None:
    """Makes the table `row_lengths` (leader_id, key, length), key being the first column of the resource's.

    Of every Leader, in one reading: a condition would be looked at before the lengths are taken, and what passes one
    the engine gathers, texts and all, until it has 2,048 rows.
    """
    cursor.execute(
        f'CREATE OR REPLACE TEMP TABLE row_lengths AS SELECT "LEADER_ID" AS leader_id, '
        f"{quoted(resource.key[0])} AS key, {_text_length(resource)} AS length FROM {relation}"
    )


def _parts(cursor: Any, resource: Resource, ordinal: int, leader: LeaderRows, fits: int) -> Iterator[str]:
    """One Leader in parts of the first column of its key, by `row_lengths`."""
    key = quoted(resource.key[0])
    ends = cursor.execute(
        f"SELECT CAST(max(key) AS VARCHAR) FROM (SELECT key, "
        f"sum(length + {_ROW_BYTES}) OVER (ORDER BY key NULLS FIRST ROWS UNBOUNDED PRECEDING) // {fits} AS part "
        f"FROM row_lengths WHERE leader_id = CAST($1 AS UUID)) GROUP BY part ORDER BY part",
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


def _text_length(resource: Resource) -> str:
    """What a row's texts hold, in bytes, as SQL."""
    texts = [quoted(column.name) for column in resource.columns if column.type is ColumnType.TEXT]
    return " + ".join(f"coalesce(strlen({text}), 0)" for text in texts) or "0"
