"""The lines of a resource's rows, in order: rows sorted by the embedded engine, made into lines beside it."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import nanoarrow

from daybreak.catalogue.resources import Resource
from daybreak.export import line_encoder
from daybreak.export.line_batch import LineBatch, int32_values
from daybreak.export.lines import cells, csv_line, drafts, json_line, quoted
from daybreak.export.survey import Survey

_BATCH_BYTES = 6 << 20
FEWEST_ROWS = 2048
MOST_ROWS = 131_072


def line_batches(
    cursor: Any, relation: str, resource: Resource, columns: Sequence[str], found: Survey, *, threads: int
) -> Generator[LineBatch]:
    """The lines of the Leaders in table `wanted_leaders`, by their ordinals, then by `row_order`.

    `columns` are the kinds of line wanted (csv, json); there may be more. By the compiled encoder in `threads` threads
    where it can be used, else in SQL: the same bytes. To be closed when it is not read to its end.
    """
    rows = rows_per_batch(resource, found)
    if line_encoder.why_not() is None:
        ordered = cursor.sql(f"SELECT ordinal, {_columns(resource)} FROM {_in_order(relation, resource)}")
        yield from _encoded(record_batches(ordered, rows), resource, threads)
        return
    filled = frozenset(name for name, count in found.null_counts.items() if not count)
    for batch in record_batches(cursor.sql(line_query(relation, resource, columns, filled)), rows):
        if batch.length:
            yield _as_lines(batch, columns)


def row_order(resource: Resource) -> str:
    """What follows the Leader in ORDER BY: the key, then what parts rows with an equal key."""
    return ", ".join(f"{quoted(name)} NULLS FIRST" for name in (*resource.key, *resource.tie_break))


def rows_per_batch(resource: Resource, found: Survey) -> int:
    """Rows whose lines take about `_BATCH_BYTES` in CSV and JSON together, were all of them as wide
    as those of the Leader with the widest."""
    names = sum(len(column.name) + 4 for column in resource.columns)
    line = 2 * found.widest_row_bytes + names + 2 * 20 * len(resource.columns)
    return max(FEWEST_ROWS, min(MOST_ROWS, _BATCH_BYTES // max(line, 1)))


def line_query(relation: str, resource: Resource, columns: Sequence[str], filled: frozenset[str]) -> str:
    """Ordered lines in SQL: (ordinal, one line column per kind of line). `filled` are columns without NULLs.

    Rows are put in order by typed values, which is cheaper than by text, and made into lines
    after.
    """
    makers = {"csv": csv_line(resource), "json": json_line(resource, filled)}
    lines = ", ".join(makers[column] for column in columns)
    return (
        f"SELECT ordinal, {lines} FROM (SELECT *, {drafts(resource, filled)} AS csv_draft "
        f"FROM (SELECT ordinal, {cells(resource)} FROM {_in_order(relation, resource)}))"
    )


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


def _in_order(relation: str, resource: Resource) -> str:
    return (
        f"(SELECT ordinal, rows.* FROM {relation} AS rows "
        f'JOIN wanted_leaders ON wanted_leaders.leader_id = rows."LEADER_ID" '
        f"ORDER BY ordinal, {row_order(resource)})"
    )


def _columns(resource: Resource) -> str:
    return ", ".join(quoted(column.name) for column in resource.columns)


def _encoded(batches: Iterator[Any], resource: Resource, threads: int) -> Iterator[LineBatch]:
    """Encodes batches side by side, in order; few enough at once to bound what waits."""
    encoders: queue.SimpleQueue[line_encoder.LineEncoder] = queue.SimpleQueue()
    for _ in range(threads):
        encoders.put(line_encoder.LineEncoder(resource))

    def encode(batch: Any) -> list[LineBatch]:
        encoder = encoders.get()
        try:
            return encoder.encode(batch)
        finally:
            encoders.put(encoder)

    waiting: deque[Future[list[LineBatch]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="lines") as pool:
        for batch in batches:
            waiting.append(pool.submit(encode, batch))
            if len(waiting) > threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def _as_lines(batch: Any, columns: Sequence[str]) -> LineBatch:
    view = batch.view()
    lines = {}
    for index, name in enumerate(columns, start=1):
        child = view.child(index)
        bounds = memoryview(child.buffer(1)).cast("B").cast("i")[child.offset : child.offset + batch.length + 1]
        lines[name] = (bounds, memoryview(child.buffer(2)).cast("B"))
    return LineBatch(int32_values(view.child(0), batch.length), lines, batch)
