"""Lines of a resource's rows in file order: the embedded engine sorts the rows, the line encoder encodes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import structlog
from nanoarrow.c_array import CArray, CArrayView

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.export.duckdb_internals import VECTOR_ROWS, packed_row, record_batches, sort_key_fault
from daybreak.export.line_batch import LineBatch
from daybreak.export.line_encoder import encoder, runtime
from daybreak.export.line_encoder.encoder import EncoderPool, PackedRows
from daybreak.export.line_sql import line_query
from daybreak.export.sort_passes import sort_passes
from daybreak.export.sql import identifier
from daybreak.export.survey import Survey, SurveyedLeader
from daybreak.export.work_tables import WorkTables

_log = structlog.get_logger("daybreak.export")
_BATCH_BYTES = 6 << 20
MIN_BATCH_ROWS = VECTOR_ROWS
MAX_BATCH_ROWS = 131_072


def line_batches(
    tables: WorkTables, survey: Survey, leaders: Sequence[SurveyedLeader], kinds: Sequence[str], *, threads: int
) -> Generator[LineBatch]:
    """Yield the lines of the Leaders in their order, and of each Leader in `row_order`. Close an unexhausted generator.

    Batches have the requested kinds of line (csv, json), and may have others. The compiled encoder encodes them in
    `threads` threads where it is available, SQL elsewhere. Both produce the same bytes.
    """
    tables.number_leaders([leader.client_id for leader in leaders])
    batch_rows = rows_per_batch(tables.resource, survey)
    if _can_use_encoder(tables):

        def packed_batches() -> Iterator[CArray]:
            for condition in sort_passes(tables, leaders):
                yield from record_batches(tables.connection.sql(_packed_query(tables, condition)), batch_rows)

        yield from _encoded(packed_batches(), tables.resource, threads)
        return
    for condition in sort_passes(tables, leaders):
        rows_query = _ordered_query(tables, "r.*", condition)
        query = line_query(rows_query, tables.resource, kinds, survey.non_null_columns)
        for batch in record_batches(tables.connection.sql(query), batch_rows):
            if batch.length:
                yield _as_lines(batch, kinds)


def rows_per_batch(resource: Resource, survey: Survey) -> int:
    """Return the number of rows whose CSV and JSON lines take about 6 MB, assuming the row width of the Leader with the
    widest rows.
    """
    names_bytes = sum(len(column.name) + 4 for column in resource.columns)
    line_bytes = 2 * survey.widest_row_bytes + names_bytes + 2 * 20 * len(resource.columns)
    return max(MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, _BATCH_BYTES // max(line_bytes, 1)))


def _can_use_encoder(tables: WorkTables) -> bool:
    if runtime.unavailable_reason() is not None:
        return False
    fault = sort_key_fault(tables.connection)
    if fault is not None:
        _log.warning("export.encoder_unusable", resource=tables.resource.name, reason=fault)
    return fault is None


def _ordered_query(tables: WorkTables, columns: str, condition: str) -> str:
    # Sorting typed values takes less work than sorting their texts.
    return (
        f"SELECT ordinal, {columns} FROM {tables.numbered_rows()} WHERE {condition} "
        f"ORDER BY ordinal, {tables.row_order}"
    )


def _packed_query(tables: WorkTables, condition: str) -> str:
    """Return a SELECT of (ordinal, packed row). If the sort order contains a text, rows are packed after the sort:
    otherwise the sort would process that text twice, as a sort column and in the packed row.
    """
    resource = tables.resource
    row = f"{packed_row(map(identifier, resource.column_names))} AS packed"
    order = (*resource.key, *resource.tie_break)
    if any(resource.column(name).type is ColumnType.TEXT for name in order):
        return f"SELECT ordinal, {row} FROM ({_ordered_query(tables, 'r.*', condition)})"
    return _ordered_query(tables, row, condition)


def _encoded(batches: Iterator[CArray], resource: Resource, threads: int) -> Iterator[LineBatch]:
    """Encode parts of batches in parallel and yield their lines in order. At most `threads` parts are queued. An
    oversized row is encoded alone.
    """
    pool = EncoderPool(resource)
    waiting: deque[Future[list[LineBatch]]] = deque()

    def finished(max_waiting: int) -> Iterator[LineBatch]:
        while len(waiting) > max_waiting:
            yield from waiting.popleft().result()

    with ThreadPoolExecutor(threads, thread_name_prefix="lines") as executor:
        for batch in batches:
            for rows in split_batch(batch):
                max_waiting = 0 if rows.is_oversized else threads
                yield from finished(max_waiting)
                waiting.append(executor.submit(pool.encode, rows))
                yield from finished(max_waiting)
        yield from finished(0)


def split_batch(batch: CArray) -> Iterator[PackedRows]:
    """Split an Arrow batch (ordinal INTEGER, packed row BLOB) into single rows or parts of up to `MAX_INPUT_BYTES`."""
    view = batch.view()
    rows = view.child(1)
    ordinals = _int32_values(view.child(0), batch.length)
    offsets = _int32_values(rows, batch.length + 1)
    content = memoryview(rows.buffer(2)).cast("B")
    for start, end in _halves(offsets, 0, batch.length):
        yield PackedRows(
            ordinals[start:end], offsets[start : end + 1], content[offsets[start] : offsets[end]], owner=batch
        )


def _halves(offsets: memoryview, start: int, end: int) -> Iterator[tuple[int, int]]:
    if end - start < 2 or offsets[end] - offsets[start] <= encoder.MAX_INPUT_BYTES:
        if start < end:
            yield start, end
    else:
        middle = (start + end) // 2
        yield from _halves(offsets, start, middle)
        yield from _halves(offsets, middle, end)


def _as_lines(batch: CArray, kinds: Sequence[str]) -> LineBatch:
    view = batch.view()
    lines = {}
    for position, kind in enumerate(kinds, start=1):
        column = view.child(position)
        lines[kind] = (_int32_values(column, batch.length + 1), memoryview(column.buffer(2)).cast("B"))
    return LineBatch(_int32_values(view.child(0), batch.length), lines, batch)


def _int32_values(column: CArrayView, length: int) -> memoryview:
    """Return the first `length` values of an int32 buffer of a column: values, or offsets of texts."""
    return memoryview(column.buffer(1)).cast("B").cast("i")[column.offset : column.offset + length]
