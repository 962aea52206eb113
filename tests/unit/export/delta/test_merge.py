"""Deltas of generated files, compared with an implementation in plain dictionaries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import RESOURCES, Resource, resource_named
from daybreak.export.delta.apply import applied_digest, applied_rows
from daybreak.export.delta.delta_lines import delta_header
from daybreak.export.delta.kernel.kernel import merge_engines
from daybreak.export.delta.merge import MAX_GROUP_BYTES, DeltaFault, DeltaMerge, MergeEngine, RowMerge
from daybreak.export.gzip_member import CODECS, GzipMember, decompressed
from daybreak.export.line_sql import csv_header
from tests.reference import deltas as reference
from tests.reference.platforms import HOSTILE

Row = tuple[object, ...]
OpenEngine = Callable[[Resource], MergeEngine]
START = datetime(2026, 11, 20, tzinfo=UTC)
AS_OF = ("2026-11-20T04:00:00.000000Z", "2026-11-21T04:00:00.000000Z")
_IDS = [f"{digit * 8}-0000-4000-8000-000000000000" for digit in "01789af"]


@pytest.fixture(scope="module")
def engines() -> dict[str, Callable[[], MergeEngine]]:
    """Return one pool per resource. Memory is reused, so that a test fails if rows of another file remain in it."""
    return {resource.name: merge_engines(resource) for resource in RESOURCES}


@pytest.fixture(params=["python", "compiled"])
def open_engine(request: pytest.FixtureRequest, engines: dict[str, Callable[[], MergeEngine]]) -> OpenEngine:
    """Run the test with each engine."""
    return RowMerge if request.param == "python" else lambda resource: engines[resource.name]()


def cells(column: Column) -> st.SearchStrategy[object]:
    """Return few distinct values, so that keys repeat and rows stay equal."""
    values: list[object]
    match column.type:
        case ColumnType.UUID:
            values = list(_IDS)
        case ColumnType.TEXT:
            values = list(HOSTILE[:16])
        case ColumnType.BIGINT:
            values = [0, -1, 10**15]
        case ColumnType.BOOLEAN:
            values = [True, False]
        case ColumnType.DATE:
            values = [date(2026, 11, 20), date(1969, 12, 31), date(9999, 12, 31)]
        case ColumnType.TIMESTAMP:
            values = [START, START + timedelta(microseconds=1), datetime(1, 1, 1, tzinfo=UTC)]
    return st.sampled_from([*values, None])


def rows_of(resource: Resource) -> st.SearchStrategy[list[Row]]:
    compared = [column for column in resource.columns if column.name not in resource.constants]
    return st.lists(st.tuples(*map(cells, compared)), max_size=12)


def file_of(resource: Resource, rows: list[Row], as_of: str) -> bytes:
    """Return the full CSV file of these rows, sorted by key and then by all columns."""
    lines = [[_text(cell) for cell in row] + ([as_of] if resource.constants else []) for row in rows]
    records = reference.parse("".join(",".join(line) + "\n" for line in lines).encode())
    places = [resource.column_names.index(name) for name in resource.key]

    def order(record: reference.Row) -> tuple[object, ...]:
        return tuple((cell is not None, "" if cell is None else cell[0].encode()) for cell in _keyed(record, places))

    return csv_header(resource) + reference.write(sorted(records, key=order))


def _keyed(record: reference.Row, places: list[int]) -> list[reference.Cell]:
    return [record[place] for place in places] + [cell for place, cell in enumerate(record) if place not in places]


def _text(cell: object) -> str:
    match cell:
        case None:
            return ""
        case bool():
            return str(cell).lower()
        case datetime():
            return f"{cell.isoformat(timespec='microseconds').removesuffix('+00:00'):0>26}Z"
        case str():
            return '"' + cell.replace('"', '""') + '"'
    return str(cell)


def pieces(content: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Cut the content into pieces of these sizes, in turn."""
    position = turn = 0
    while position < len(content):
        size = sizes[turn % len(sizes)]
        yield content[position : position + size]
        position, turn = position + size, turn + 1


def merged(
    open_engine: OpenEngine, resource: Resource, before: bytes, after: bytes, sizes: list[int]
) -> tuple[bytes, bytes, MergeEngine]:
    """Return the CSV delta, the JSON delta, and the engine."""
    csv, json_lines = [delta_header(resource)], []

    def write(csv_lines: bytes, lines: bytes) -> None:
        csv.append(csv_lines)
        json_lines.append(lines)

    engine = open_engine(resource)
    merge = DeltaMerge(engine, csv_header(resource), pieces(before, sizes), write)
    header_bytes = len(csv_header(resource))
    for piece in [after[:header_bytes], *pieces(after[header_bytes:], sizes[::-1])]:
        buffer = bytearray(piece)
        merge.feed(memoryview(buffer))
        # Files use the memory of their parts again.
        buffer[:] = bytes(len(buffer))
    merge.finish()
    engine.close()
    return b"".join(csv), b"[" + b"".join(json_lines)[2:] + b"]", engine


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.name)
@given(data=st.data())
def test_delta_is_that_of_the_reference(open_engine: OpenEngine, resource: Resource, data: st.DataObject) -> None:
    kept = data.draw(rows_of(resource))
    before = file_of(resource, kept + data.draw(rows_of(resource)), AS_OF[0])
    after = file_of(resource, kept + data.draw(rows_of(resource)), AS_OF[1])
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 17, 64, 1000]), min_size=1, max_size=4))
    csv, as_json, engine = merged(open_engine, resource, before, after, sizes)
    assert csv == reference.expected_delta(before, after, resource)
    assert json.loads(as_json) == reference.delta_json(csv, resource)
    constants = engine.constants()
    assert reference.applied(before, csv, resource, constants) == after
    rows = applied_rows(resource, pieces(before, sizes), pieces(csv, sizes), constants)
    assert b"".join(rows) == after
    assert engine.totals.lines == len(reference.parse(csv)) - 1


def test_rows_out_of_order_are_refused(open_engine: OpenEngine) -> None:
    resource = resource_named("communities")
    lines = [f'"{leader}","name","{_IDS[0]}",1\n'.encode() for leader in _IDS[:3]]
    ordered = csv_header(resource) + b"".join(lines)
    reverse = csv_header(resource) + b"".join(reversed(lines))
    for before, after in ((ordered, reverse), (reverse, ordered)):
        with pytest.raises(DeltaFault, match="rows_not_in_order"):
            merged(open_engine, resource, before, after, [1000])


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (b'"COMMUNITY_ID"\n', b"", "columns_changed"),
        (b"", b'"a","b","c",1\n"x', "rows_incomplete"),
        (b'"a","b","c",1\n"x', b"", "rows_incomplete"),
    ],
)
def test_unexpected_content_is_refused(open_engine: OpenEngine, before: bytes, after: bytes, reason: str) -> None:
    resource = resource_named("communities")
    header = csv_header(resource)
    old = before if reason == "columns_changed" else header + before
    with pytest.raises(DeltaFault, match=reason):
        merged(open_engine, resource, old, header + after, [1000])


def test_rows_of_one_key_have_a_limit(open_engine: OpenEngine) -> None:
    piece = b"x" * (1 << 20)
    with closing(open_engine(resource_named("communities"))) as engine:
        for _ in range(MAX_GROUP_BYTES // len(piece)):
            engine.add("old", piece)
        with pytest.raises(DeltaFault, match="rows_too_large"):
            engine.add("old", b"x")


def test_constant_that_varies_is_refused(open_engine: OpenEngine) -> None:
    resource = resource_named("member_term_accepts")
    row = [_IDS[0], _IDS[0], _IDS[0], None, None, True, False, START, "a", None, "a", None, None, None]
    lines = [",".join(map(_text, [_IDS[place], *row[1:]])) + f",{as_of}\n" for place, as_of in enumerate(AS_OF)]
    varying = csv_header(resource) + "".join(lines).encode()
    with pytest.raises(DeltaFault, match="constant_varies"):
        merged(open_engine, resource, csv_header(resource), varying, [1000])


def test_times_are_ordered_by_instant(open_engine: OpenEngine) -> None:
    resource = resource_named("outbound_message_type_usage")
    days = ["", "0001-01-01", "0999-12-31", "1000-01-01", "1969-12-31", "9999-12-31"]
    lines = [f'"{_IDS[0]}","{_IDS[0]}",{day},"sms","dm",1,1,1\n'.encode() for day in days]
    before, after = csv_header(resource) + b"".join(lines[::2]), csv_header(resource) + b"".join(lines)
    csv, _, engine = merged(open_engine, resource, before, after, [50])
    assert csv == delta_header(resource) + b"".join(b'"I",' + line for line in lines[1::2])
    assert (engine.totals.inserted, engine.totals.deleted) == (3, 0)


def test_wrong_delta_does_not_yield_the_new_file() -> None:
    resource = resource_named("communities")
    header = csv_header(resource)
    row, other = (f'"{_IDS[0]}","{name}","{_IDS[0]}",1\n'.encode() for name in "ab")
    right = delta_header(resource) + f'"D","{_IDS[0]}",,,\n'.encode() + b'"I",' + other
    digests = {
        applied_digest(resource, iter([header + row]), iter([delta]), {})
        for delta in (right, delta_header(resource) + b'"I",' + other, delta_header(resource))
    }
    assert len(digests) == 3


def test_compression_and_decompression_do_not_slow_down_the_merge() -> None:
    """The library igzip leaves vector registers in a state that makes other vector code up to forty times slower."""
    resource = resource_named("communities")
    rows = file_of(resource, [(_IDS[0], f"{number:060}", _IDS[1], 1) for number in range(500)], AS_OF[0])
    open_engine, codec = merge_engines(resource), CODECS["igzip-2"]

    def seconds() -> float:
        engine = open_engine()
        merge = DeltaMerge(engine, csv_header(resource), iter([rows]), lambda _csv, _json: None)
        merge.feed(rows)
        start = time.thread_time()
        merge.finish()
        engine.close()
        return time.thread_time() - start

    before = min(seconds() for _ in range(30))
    codec.part(rows, last=True)
    assert min(seconds() for _ in range(30)) < 5 * before
    for content in (rows, rows[:100]):
        list(decompressed(GzipMember(codec).compressed([content])))
        assert min(seconds() for _ in range(30)) < 5 * before
