"""The lines of a resource's rows, in order: rows sorted by the embedded engine, made into lines beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import nanoarrow

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.export import line_encoder
from daybreak.export.line_batch import LineBatch, int32_values
from daybreak.export.line_encoder import LineEncoders, portions
from daybreak.export.lines import cells, csv_line, drafts, json_line, quoted
from daybreak.export.packed_row import packed
from daybreak.export.passes import passes
from daybreak.export.survey import LeaderRows, Survey

_BATCH_BYTES = 6 << 20
FEWEST_ROWS = 2048
MOST_ROWS = 131_072


def line_batches(
    cursor: Any,
    relation: str,
    resource: Resource,
    columns: Sequence[str],
    found: Survey,
    wanted: Sequence[LeaderRows],
    *,
    threads: int,
) -> Generator[LineBatch]:
    """The lines of the wanted Leaders, by their place among them, then by `row_order`.

    `columns` are the kinds of line wanted (csv, json); there may be more. By the compiled encoder in `threads` threads
    where it can be used, else in SQL: the same bytes. To be closed when it is not read to its end.
    """
    number_leaders(cursor, wanted)
    rows = rows_per_batch(resource, found)
    compiled = line_encoder.why_not() is None
    filled = frozenset(name for name, count in found.null_counts.items() if not count)

    def batches() -> Iterator[Any]:
        for only in passes(cursor, relation, resource, wanted):
            if compiled:
                query = _packed_in_order(relation, resource, only)
            else:
                query = _lines_in_sql(_in_order("rows.*", relation, resource, only), resource, columns, filled)
            yield from record_batches(cursor.sql(query), rows)

    if compiled:
        yield from _encoded(batches(), resource, threads)
    else:
        yield from (_as_lines(batch, columns) for batch in batches() if batch.length)


def number_leaders(cursor: Any, wanted: Sequence[LeaderRows]) -> None:
    """Fills the table `wanted_leaders` (wanted_id, ordinal)."""
    cursor.execute(
        "CREATE OR REPLACE TEMP TABLE wanted_leaders AS "
        "SELECT CAST(id AS UUID) AS wanted_id, CAST(ordinal - 1 AS INTEGER) AS ordinal "
        "FROM (SELECT unnest($1) AS id, generate_subscripts($1, 1) AS ordinal)",
        [[leader.client_id for leader in wanted]],
    )


def row_order(resource: Resource) -> str:
    """What follows the Leader in ORDER BY: the key, then what parts rows with an equal key."""
    return ", ".join(f"{quoted(name)} NULLS FIRST" for name in (*resource.key, *resource.tie_break))


def rows_per_batch(resource: Resource, found: Survey) -> int:
    """Rows whose lines take about `_BATCH_BYTES` in CSV and JSON together, were all of them as wide
    as those of the Leader with the widest."""
    names = sum(len(column.name) + 4 for column in resource.columns)
    line = 2 * found.widest_row_bytes + names + 2 * 20 * len(resource.columns)
    return max(FEWEST_ROWS, min(MOST_ROWS, _BATCH_BYTES // max(line, 1)))


def record_batches(relation: Any, rows_per_batch: int) -> Iterator[Any]:
    """The relation's Arrow batches as they are made, of about that many rows.

    The public Arrow stream has no size to choose and always takes 131,072 rows, which is more
    than the memory limit when rows are wide; so the stream is asked for one level below.
    """
    capsule = relation._submit("stream", rows_per_batch).arrow_capsule()  # noqa: SLF001
    yield from nanoarrow.c_array_stream(_Capsule(capsule))


@dataclass(frozen=True, slots=True)
class _Capsule:
    stream: object

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.stream


def _in_order(what: str, relation: str, resource: Resource, only: str) -> str:
    """(ordinal, `what` of `rows`), in order: by typed values, which is cheaper than by text."""
    return (
        f"SELECT ordinal, {what} FROM {relation} AS rows "
        f'JOIN wanted_leaders ON wanted_leaders.wanted_id = rows."LEADER_ID" '
        f"WHERE {only} ORDER BY ordinal, {row_order(resource)}"
    )


def _packed_in_order(relation: str, resource: Resource, only: str) -> str:
    """(ordinal, packed row). A text in the order would go through the sort twice, by itself and in the packed row: then
    rows are packed behind it.
    """
    row = f"{packed(map(quoted, resource.column_names))} AS packed"
    kinds = {column.name: column.type for column in resource.columns}
    if any(kinds[name] is ColumnType.TEXT for name in (*resource.key, *resource.tie_break)):
        return f"SELECT ordinal, {row} FROM ({_in_order('rows.*', relation, resource, only)})"
    return _in_order(row, relation, resource, only)


def _lines_in_sql(ordered: str, resource: Resource, columns: Sequence[str], filled: frozenset[str]) -> str:
    """(ordinal, one line column per kind of line). `filled` are columns without NULLs."""
    makers = {"csv": csv_line(resource), "json": json_line(resource, filled)}
    lines = ", ".join(makers[column] for column in columns)
    return (
        f"SELECT ordinal, {lines} FROM (SELECT *, {drafts(resource, filled)} AS csv_draft "
        f"FROM (SELECT ordinal, {cells(resource)} FROM ({ordered})))"
    )


def _encoded(batches: Iterator[Any], resource: Resource, threads: int) -> Iterator[LineBatch]:
    """Encodes portions of batches side by side, in order; few enough at once to bound what waits, and a giant row by
    itself.
    """
    encoders = LineEncoders(resource)
    waiting: deque[Future[list[LineBatch]]] = deque()

    def taken(at_most: int) -> Iterator[LineBatch]:
        while len(waiting) > at_most:
            yield from waiting.popleft().result()

    with ThreadPoolExecutor(threads, thread_name_prefix="lines") as pool:
        for batch in batches:
            for portion in portions(batch):
                at_most = 0 if portion.is_giant else threads
                yield from taken(at_most)
                waiting.append(pool.submit(encoders.encode, portion))
                yield from taken(at_most)
        yield from taken(0)


def _as_lines(batch: Any, columns: Sequence[str]) -> LineBatch:
    view = batch.view()
    lines = {}
    for index, name in enumerate(columns, start=1):
        child = view.child(index)
        bounds = memoryview(child.buffer(1)).cast("B").cast("i")[child.offset : child.offset + batch.length + 1]
        lines[name] = (bounds, memoryview(child.buffer(2)).cast("B"))
    return LineBatch(int32_values(view.child(0), batch.length), lines, batch)
