"""The compiled encoder and SQL produce the same lines, byte for byte."""

import ast
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import product
from typing import Any
from uuid import UUID

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.catalogue.written_sums import KEY_PARTS, SUMMED_COLUMNS
from daybreak.domain.errors import RunError
from daybreak.export import row_partition
from daybreak.export.buckets import Spill
from daybreak.export.duckdb_internals import packed_row, record_batches
from daybreak.export.engine import temp_folder
from daybreak.export.leader_rows import leader_bundles
from daybreak.export.line_encoder import encoder as line_encoder
from daybreak.export.line_encoder import runtime
from daybreak.export.line_encoder.encoder import BucketEncoder
from daybreak.export.line_encoder.partitioner import PackedRows, Partitioner
from daybreak.export.line_encoder.records import HEADER, RecordLayout
from daybreak.export.memory import copy
from daybreak.export.row_partition import split_batch
from daybreak.export.work_tables import WorkTables
from tests.parts.export_rows import naughty_strings

Engine = duckdb.DuckDBPyConnection
LEADERS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(5)]
EVERY_TYPE = Resource(
    "every_type",
    "Every type",
    "A column of each type twice.",
    "every-type.csv",
    (
        Column("KEY", ColumnType.BIGINT, True, "Makes rows distinct."),
        Column("LEADER_ID", ColumnType.UUID, True, "The Leader."),
        *(Column(f"{kind.name}_{number}", kind, True, "A cell.") for number, kind in product((1, 2), ColumnType)),
    ),
    ("KEY",),
)
SQL_TYPES = {kind: "VARCHAR" if kind is ColumnType.TEXT else kind.name for kind in ColumnType}
BIGINTS = st.integers(-(2**63), 2**63 - 1)
CELLS: dict[ColumnType, st.SearchStrategy[Any]] = {
    ColumnType.UUID: st.uuids().map(str),
    ColumnType.TEXT: st.text(max_size=70)
    | st.sampled_from(naughty_strings())
    | st.text('"\\\n\x00\x1f a', max_size=40),
    ColumnType.BIGINT: BIGINTS | st.integers(-11, 11),
    ColumnType.BOOLEAN: st.booleans(),
    ColumnType.DATE: st.dates(),
    ColumnType.TIMESTAMP: st.datetimes(),
}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f'"{column.name}" {SQL_TYPES[column.type]}' for column in EVERY_TYPE.columns)
        connection.execute(f"CREATE TABLE every_type ({columns})")
        yield connection


def lines(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    *,
    compiled: bool,
    threads: int = 2,
    resource: Resource = EVERY_TYPE,
) -> dict[str, bytes]:
    """Return all client_ids, one per row, lines, joined, and figures of Leaders and counts of unexpected times."""
    monkeypatch.setitem(KEY_PARTS, "every_type", ("UUID_1", "TEXT_1", "TIMESTAMP_1"))
    monkeypatch.setitem(SUMMED_COLUMNS, "every_type", ("BIGINT_1", "BIGINT_2"))
    monkeypatch.setattr(runtime, "unavailable_reason", lambda: None if compiled else "switched off by the test")
    joined = {"leaders": b"", "csv": b"", "json": b""}
    with engine.cursor() as cursor, ThreadPoolExecutor(threads) as executor:
        tables = WorkTables(cursor, resource, "SELECT * FROM every_type")
        totals, counts = tables.totals(LEADERS)
        figures = [(one.client_id, one.rows, one.figures) for one in totals]
        joined["figures"] = repr((figures, counts.unexpected)).encode()
        leaders = {one.client_id: one.rows for one in totals}
        with closing(Spill(temp_folder(cursor))) as spill:
            for bundle in leader_bundles(tables, tables.rows, leaders, spill, executor, threads, lambda: None):
                for chunk in (chunk for chunks in bundle.lines for chunk in chunks):
                    joined["leaders"] += chunk.client_id.encode() * chunk.rows
                    for kind, content in chunk.lines.items():
                        joined[kind] += bytes(content)
    return joined


def insert(engine: Engine, rows: Sequence[Sequence[object]]) -> None:
    engine.execute("DELETE FROM every_type")
    if rows:
        places = ", ".join("?" for _ in EVERY_TYPE.columns)
        engine.executemany(f"INSERT INTO every_type VALUES ({places})", [list(row) for row in rows])


def test_compiled_encoder_runs_on_this_machine() -> None:
    assert runtime.unavailable_reason() is None


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(LEADERS),
            *(st.none() | CELLS[column.type] for column in EVERY_TYPE.columns[2:]),
        ),
        max_size=20,
    )
)
def test_encoder_and_sql_produce_the_same_lines(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[object, ...]]
) -> None:
    insert(engine, [(number, *row) for number, row in enumerate(rows)])
    assert lines(engine, monkeypatch, compiled=True) == lines(engine, monkeypatch, compiled=False)


def test_extreme_times_and_numbers_are_encoded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    days = ["infinity", "-infinity", "0001-01-01", "0001-01-01 (BC)", "0044-03-15 (BC)", "9999-12-31", "10000-01-01",
            "5881580-07-10", "5877642-06-25 (BC)", "1970-01-01", "1969-12-31", "2000-02-29", "1900-03-01"]  # fmt: skip
    instants = ["infinity", "-infinity", "0001-01-01 00:00:00", "0001-01-01 (BC) 00:00:00", "0044-03-15 (BC) 12:00:00",
                "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00", "294247-01-10 04:00:54.775806",
                "290309-12-22 (BC) 00:00:00", "1969-12-31 23:59:59.999999", "2000-02-29 01:02:03.000004"]  # fmt: skip
    numbers = [-(2**63), 2**63 - 1, 0, -1, 9, 10, -10, 10**18]
    for key, (day, instant) in enumerate(product(days, instants)):
        engine.execute(
            'INSERT INTO every_type ("KEY", "LEADER_ID", "DATE_1", "TIMESTAMP_1", "BIGINT_1") '
            "VALUES (?, ?, CAST(? AS DATE), CAST(? AS TIMESTAMP), ?)",
            [key, LEADERS[0], day, instant, numbers[key % len(numbers)]],
        )
    found = lines(engine, monkeypatch, compiled=True)
    assert found == lines(engine, monkeypatch, compiled=False)
    assert found["csv"].count(b"\n") == len(days) * len(instants)
    outside = {"DATE_1": 7 * len(instants), "TIMESTAMP_1": 7 * len(days)}
    [(_, rows, (_, total, none))], unexpected = ast.literal_eval(found["figures"].decode())
    assert (rows, none, unexpected) == (len(days) * len(instants), 0, outside)
    assert total == sum(numbers[key % len(numbers)] for key in range(rows)) % 2**64


@pytest.mark.release
def test_texts_of_any_length_are_encoded_across_batches(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.execute(
        'INSERT INTO every_type ("KEY", "LEADER_ID", "TEXT_1", "TEXT_2", "BOOLEAN_1") '
        "SELECT i, CAST($1[1 + i % 5] AS UUID), repeat('ab\"c', i % 100), "
        "CASE WHEN i % 7 THEN repeat('é\\', i % 33) END, CASE i % 3 WHEN 1 THEN true WHEN 2 THEN false END "
        "FROM range(9000) AS numbers(i)",
        [LEADERS],
    )
    monkeypatch.setattr(row_partition, "BATCH_ROWS", 1000)
    expected = lines(engine, monkeypatch, compiled=False)
    assert lines(engine, monkeypatch, compiled=True, threads=3) == expected
    # Groups of a few rows, and outputs that are full after a few rows.
    monkeypatch.setattr(row_partition, "GROUP_BYTES", 10_000)
    monkeypatch.setattr(line_encoder, "OUTPUT_BYTES", 5_000)
    assert lines(engine, monkeypatch, compiled=True, threads=1) == expected


def test_oversized_cell_is_encoded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["x", 'ab\x01"' * 3_000_000, "y"]
    insert(engine, [(number, LEADERS[0], None, text, *[None] * 10) for number, text in enumerate(texts)])
    assert lines(engine, monkeypatch, compiled=True) == lines(engine, monkeypatch, compiled=False)


def test_key_after_other_columns_orders_the_rows(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records begin with the key, in whatever place of the file its columns are."""
    other = replace(EVERY_TYPE, key=("TEXT_2", "DATE_1"), tie_break=("KEY",))
    insert(
        engine,
        [
            (number, LEADERS[0], None, f"text {number}", None, None, date(2026, 1, 1 + number % 5), None, None,
             ("b", None, "a")[number % 3], *[None] * 4)
            for number in range(50)
        ],
    )  # fmt: skip
    found = lines(engine, monkeypatch, compiled=True, resource=other)
    assert found == lines(engine, monkeypatch, compiled=False, resource=other)
    assert found["csv"].startswith(b'10,"%s",,"text 10",,,2026-01-01,,,' % LEADERS[0].encode())


def test_keys_that_are_spread_unevenly_are_sorted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.execute(
        'INSERT INTO every_type ("KEY", "LEADER_ID", "BIGINT_1") '
        "SELECT CASE i WHEN 0 THEN -9223372036854775807 WHEN 1 THEN 9223372036854775807 ELSE hash(i) % 500 END, "
        "CAST($1[1 + i % 2] AS UUID), hash(i) % 7 FROM range(3000) AS numbers(i)",
        [LEADERS],
    )
    other = replace(EVERY_TYPE, tie_break=("BIGINT_1",))
    found = lines(engine, monkeypatch, compiled=True, resource=other)
    assert found == lines(engine, monkeypatch, compiled=False, resource=other)


def test_malformed_row_is_an_error(engine: Engine) -> None:
    insert(engine, [(1, LEADERS[0], *[None] * 12)])
    layout = RecordLayout.of(EVERY_TYPE)
    item = WorkTables(engine, EVERY_TYPE, "SELECT * FROM every_type").rows
    relation = engine.sql(f"SELECT {packed_row(layout.packed_columns[:-1])} FROM {item}")
    [rows] = [rows for batch in record_batches(relation, 2048) for rows in split_batch(batch, 1 << 20)]
    leader = UUID(LEADERS[0]).bytes
    records, _ = Partitioner(leader, bytes(4), 1).partition([rows])
    bucket = BucketEncoder(layout, LEADERS[:1], leader).encode(range(1), len(records), partial(copy, source=records))
    with pytest.raises(RunError, match="lock file"):
        next(bucket)


def test_lent_memory_is_given_back_after_its_last_use() -> None:
    instance, given_back = runtime.Instance(), []
    start = instance.write(b"first second")
    lent = instance.lend(lambda: given_back.append(instance))
    second = lent[start + 6 : start + 12]
    lent.release()
    assert (bytes(second), given_back) == (b"second", [])
    second.release()
    assert given_back == [instance]


def test_divided_records_stay_valid_and_their_memory_is_used_again() -> None:
    cells = [bytes([letter]) * (3 << 20) for letter in b"abc"]
    partitioner = Partitioner(UUID(LEADERS[0]).bytes, bytes(4), 1)

    def divided(own: bytes) -> memoryview:
        content = memoryview(b"\2" + UUID(LEADERS[0]).bytes + own)
        rows = PackedRows(memoryview(array("i", (0, len(content)))), content, None)
        return partitioner.partition([rows])[0]

    records = [divided(own) for own in cells]
    assert records == [HEADER.pack(len(own), 0) + own for own in cells]
    records.clear()
    divided(cells[0])
    memory_bytes = partitioner.instance.memory_bytes
    for own in 4 * cells:
        assert divided(own) == HEADER.pack(len(own), 0) + own
    assert partitioner.instance.memory_bytes == memory_bytes < 32 << 20


def test_missing_library_is_reported_as_a_reason() -> None:
    """Run in a separate process in which the import of the library fails."""
    program = (
        "import sys; sys.modules['wasmtime'] = None\n"
        "from daybreak.export.line_encoder.runtime import unavailable_reason\n"
        "print(unavailable_reason())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "wasmtime" in done.stdout
    assert not done.stderr
