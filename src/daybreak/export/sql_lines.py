"""Totals and lines of a resource's rows from SQL, for systems on which the compiled code cannot run.

The files are the same. Fingerprints are not, because SQL has other hash functions: after a change from one to the
other, a run writes all files again. The embedded engine reads the rows twice, and sorts them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from nanoarrow.c_array import CArrayView

from daybreak.export.duckdb_internals import packed_row, record_batches
from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.line_sql import line_query
from daybreak.export.sql import identifier, literal
from daybreak.export.survey import SUM_MODULUS, LeaderTotals, RowCounts
from daybreak.export.work_tables import WorkTables

_BATCH_ROWS = 4096


def sql_totals(tables: WorkTables, known: Collection[str]) -> tuple[list[LeaderTotals], RowCounts]:
    """Return the totals of known Leaders with rows, sorted, and the counts over all rows.

    Two independent 64-bit hashes cover a row: one combines a hash per cell, the other hashes the packed row.
    """
    columns = tables.resource.columns
    names = [identifier(column.name) for column in columns]
    checked = [column for column in columns if column.allowed]
    figures = [
        "count(*)", f"sum(hash({', '.join(names)}))", f"sum(hash({packed_row(names)}))",
        *(f"count(*) - count({name})" for name in names),
        *(f"count(*) FILTER ({identifier(c.name)} NOT IN ({', '.join(map(literal, c.allowed))}))" for c in checked),
    ]  # fmt: skip
    found = tables.connection.execute(
        f'SELECT CAST("LEADER_ID" AS VARCHAR), {", ".join(figures)} FROM {tables.ROWS} GROUP BY ALL ORDER BY ALL'
    ).fetchall()
    by_leader = [row for row in found if row[0] in known]
    totals = [
        LeaderTotals(leader, rows, (first % SUM_MODULUS, second % SUM_MODULUS), "duckdb")
        for leader, rows, first, second, *_ in by_leader
    ]
    counts = [sum(values) for values in zip(*(row[4:] for row in by_leader), strict=True)] or [0] * len(figures[3:])
    unexpected = {c.name: count for c, count in zip(checked, counts[len(names) :], strict=True) if count}
    return totals, RowCounts(
        {column.name: count for column, count in zip(columns, counts, strict=False)},
        unexpected,
        sum(row[1] for row in found) - sum(row[1] for row in by_leader),
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
            own = {kind: each[start : end + 1] for kind, each in offsets.items()}
            own_lines = {kind: contents[kind][each[0] : each[-1]] for kind, each in own.items()}
            # A view does not keep its batch in memory.
            yield LeaderChunk(leaders[ordinal], end - start, own_lines, own).copy()
            start = end


def _int32_values(column: CArrayView, length: int) -> memoryview:
    """Return the first `length` values of an int32 buffer of a column: values, or offsets of texts."""
    return memoryview(column.buffer(1)).cast("B").cast("i")[column.offset : column.offset + length]
