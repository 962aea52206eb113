"""The compiled encoder and SQL produce the same lines, byte for byte."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import RunError
from daybreak.export import ordered_lines
from daybreak.export.duckdb_internals import packed_row, record_batches
from daybreak.export.line_batch import LineBatch
from daybreak.export.line_encoder import encoder as line_encoder
from daybreak.export.line_encoder import runtime
from daybreak.export.line_encoder.encoder import EncoderPool, LineEncoder, PackedRows
from daybreak.export.ordered_lines import split_batch
from daybreak.export.survey import survey_rows
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


def lines(engine: Engine, monkeypatch: pytest.MonkeyPatch, *, compiled: bool, threads: int = 2) -> dict[str, bytes]:
    """Return all ordinals and lines, joined."""
    monkeypatch.setattr(runtime, "unavailable_reason", lambda: None if compiled else "switched off by the test")
    joined = {"ordinals": b"", "csv": b"", "json": b""}
    with engine.cursor() as cursor:
        tables = WorkTables(cursor, EVERY_TYPE, "SELECT * FROM every_type")
        survey = survey_rows(tables, LEADERS, "")
        for batch in ordered_lines.line_batches(tables, survey, survey.leaders, ("csv", "json"), threads=threads):
            joined["ordinals"] += bytes(batch.ordinals)
            for kind, (offsets, content) in batch.lines.items():
                assert len(offsets) == len(batch.ordinals) + 1
                joined[kind] += bytes(content[offsets[0] : offsets[-1]])
    return joined


def insert(engine: Engine, rows: Sequence[Sequence[object]]) -> None:
    engine.execute("DELETE FROM every_type")
    if rows:
        places = ", ".join("?" for _ in EVERY_TYPE.columns)
        engine.executemany(f"INSERT INTO every_type VALUES ({places})", [list(row) for row in rows])


def test_compiled_encoder_runs_on_this_machine() -> None:
    assert runtime.unavailable_reason() is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_texts_of_any_length_are_encoded_across_batches(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.execute(
        'INSERT INTO every_type ("KEY", "LEADER_ID", "TEXT_1", "TEXT_2", "BOOLEAN_1") '
        "SELECT i, CAST($1[1 + i % 5] AS UUID), repeat('ab\"c', i % 100), "
        "CASE WHEN i % 7 THEN repeat('é\\', i % 33) END, CASE i % 3 WHEN 1 THEN true WHEN 2 THEN false END "
        "FROM range(9000) AS numbers(i)",
        [LEADERS],
    )
    monkeypatch.setattr(ordered_lines, "MIN_BATCH_ROWS", 2048)
    monkeypatch.setattr(ordered_lines, "MAX_BATCH_ROWS", 2048)
    expected = lines(engine, monkeypatch, compiled=False)
    assert lines(engine, monkeypatch, compiled=True, threads=3) == expected
    # Parts that begin in the middle of a validity byte, and outputs that are full after a few rows.
    monkeypatch.setattr(line_encoder, "MAX_INPUT_BYTES", 10_000)
    monkeypatch.setattr(line_encoder, "OUTPUT_BYTES", 5_000)
    assert lines(engine, monkeypatch, compiled=True, threads=1) == expected


def packed(engine: Engine, columns: Sequence[str] = EVERY_TYPE.column_names) -> Iterator[PackedRows]:
    """Yield the rows of the table in the encoder's input format."""
    relation = engine.sql(f"SELECT 0::INTEGER, {packed_row(columns)} FROM every_type")
    for batch in record_batches(relation, 2048):
        yield from split_batch(batch)


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch) -> list[LineEncoder]:
    """Return a list of all created encoders."""
    created: list[LineEncoder] = []
    begin = LineEncoder.__init__

    def recording(encoder: LineEncoder, resource: Resource) -> None:
        begin(encoder, resource)
        created.append(encoder)

    monkeypatch.setattr(LineEncoder, "__init__", recording)
    return created


def test_oversized_cell_enlarges_an_encoder_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, encoders: list[LineEncoder]
) -> None:
    oversized = 'ab\x01"' * 3_000_000
    texts = ["x", oversized, "y"]
    insert(engine, [(number, LEADERS[0], None, text, *[None] * 10) for number, text in enumerate(texts)])
    assert lines(engine, monkeypatch, compiled=True) == lines(engine, monkeypatch, compiled=False)
    monkeypatch.setattr(line_encoder, "MAX_POOLED_BYTES", 20 << 20)
    encoders.clear()
    pool = EncoderPool(EVERY_TYPE)
    for _ in range(2):
        for rows in packed(engine):
            pool.encode(rows)
    assert [encoder.memory_bytes > 20 << 20 for encoder in encoders] == [True, True, False]


def test_lines_are_valid_while_held_and_memory_is_reused(engine: Engine, encoders: list[LineEncoder]) -> None:
    pool = EncoderPool(EVERY_TYPE)

    def encoded(text: str) -> LineBatch:
        insert(engine, [(1, LEADERS[0], None, text, *[None] * 10)])
        [rows] = packed(engine)
        [batch] = pool.encode(rows)
        return batch

    first, second = encoded("first"), encoded("second")
    assert len(encoders) == 2
    for batch, text in ((first, b"first"), (second, b"second")):
        assert bytes(batch.lines["csv"][1]).count(text) == bytes(batch.lines["json"][1]).count(text) == 1
    del batch, second
    assert b"third" in bytes(encoded("third").lines["csv"][1])
    assert b"first" in bytes(first.lines["csv"][1])
    assert len(encoders) == 2


def test_malformed_row_is_an_error(engine: Engine) -> None:
    insert(engine, [(1, LEADERS[0], *[None] * 12)])
    [rows] = packed(engine, EVERY_TYPE.column_names[:-1])
    with pytest.raises(RunError, match="lock file"):
        EncoderPool(EVERY_TYPE).encode(rows)


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
