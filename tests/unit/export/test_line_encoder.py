"""The compiled encoder against the SQL that makes the same lines: no byte may differ."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import RunError
from daybreak.export import line_encoder, line_stream
from daybreak.export.line_batch import LineBatch
from daybreak.export.packed_row import packed
from daybreak.export.survey import survey
from tests.parts.export_rows import naughty_strings

HERE = Path(line_encoder.__file__).parent
LEADERS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(5)]
EVERY_TYPE = Resource(
    "every_type",
    "Every type",
    "A column of each type twice.",
    "every-type.csv",
    (
        Column("KEY", ColumnType.BIGINT, True, "Parts the rows."),
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
def engine() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f'"{column.name}" {SQL_TYPES[column.type]}' for column in EVERY_TYPE.columns)
        connection.execute(f"CREATE TABLE rows_of_it ({columns})")
        yield connection


def lines(engine: Any, monkeypatch: pytest.MonkeyPatch, *, compiled: bool, threads: int = 2) -> dict[str, bytes]:
    """All ordinals and lines, joined."""
    monkeypatch.setattr(line_encoder, "why_not", lambda: None if compiled else "the test wants SQL")
    with engine.cursor() as cursor:
        found = survey(cursor, "rows_of_it", EVERY_TYPE, LEADERS, "")
        joined = {"ordinals": b"", "csv": b"", "json": b""}
        for batch in line_stream.line_batches(
            cursor, "rows_of_it", EVERY_TYPE, ("csv", "json"), found, found.leaders, threads=threads
        ):
            joined["ordinals"] += bytes(batch.ordinals)
            for name, (bounds, content) in batch.lines.items():
                assert len(bounds) == len(batch.ordinals) + 1
                joined[name] += bytes(content[bounds[0] : bounds[-1]])
        return joined


def insert(engine: Any, rows: Sequence[Sequence[object]]) -> None:
    engine.execute("DELETE FROM rows_of_it")
    if rows:
        places = ", ".join("?" for _ in EVERY_TYPE.columns)
        engine.executemany(f"INSERT INTO rows_of_it VALUES ({places})", [list(row) for row in rows])


def test_this_machine_uses_the_compiled_encoder() -> None:
    assert line_encoder.why_not() is None


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
def test_any_rows_give_the_same_lines(
    engine: Any, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[object, ...]]
) -> None:
    insert(engine, [(number, *row) for number, row in enumerate(rows)])
    assert lines(engine, monkeypatch, compiled=True) == lines(engine, monkeypatch, compiled=False)


def test_the_ends_of_time_and_of_numbers(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    days = ["infinity", "-infinity", "0001-01-01", "0001-01-01 (BC)", "0044-03-15 (BC)", "9999-12-31", "10000-01-01",
            "5881580-07-10", "5877642-06-25 (BC)", "1970-01-01", "1969-12-31", "2000-02-29", "1900-03-01"]  # fmt: skip
    instants = ["infinity", "-infinity", "0001-01-01 00:00:00", "0001-01-01 (BC) 00:00:00", "0044-03-15 (BC) 12:00:00",
                "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00", "294247-01-10 04:00:54.775806",
                "290309-12-22 (BC) 00:00:00", "1969-12-31 23:59:59.999999", "2000-02-29 01:02:03.000004"]  # fmt: skip
    numbers = [-(2**63), 2**63 - 1, 0, -1, 9, 10, -10, 10**18]
    for key, (day, instant) in enumerate(product(days, instants)):
        engine.execute(
            'INSERT INTO rows_of_it ("KEY", "LEADER_ID", "DATE_1", "TIMESTAMP_1", "BIGINT_1") '
            "VALUES (?, ?, CAST(? AS DATE), CAST(? AS TIMESTAMP), ?)",
            [key, LEADERS[0], day, instant, numbers[key % len(numbers)]],
        )
    found = lines(engine, monkeypatch, compiled=True)
    assert found == lines(engine, monkeypatch, compiled=False)
    assert found["csv"].count(b"\n") == len(days) * len(instants)


def test_texts_of_any_length_and_rows_across_batches(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.execute(
        'INSERT INTO rows_of_it ("KEY", "LEADER_ID", "TEXT_1", "TEXT_2", "BOOLEAN_1") '
        "SELECT i, CAST($1[1 + i % 5] AS UUID), repeat('ab\"c', i % 100), "
        "CASE WHEN i % 7 THEN repeat('é\\', i % 33) END, CASE i % 3 WHEN 1 THEN true WHEN 2 THEN false END "
        "FROM range(9000) AS numbers(i)",
        [LEADERS],
    )
    monkeypatch.setattr(line_stream, "FEWEST_ROWS", 2048)
    monkeypatch.setattr(line_stream, "MOST_ROWS", 2048)
    expected = lines(engine, monkeypatch, compiled=False)
    assert lines(engine, monkeypatch, compiled=True, threads=3) == expected
    # Portions that begin in the middle of a byte of validity, and outputs that fill up row by row.
    monkeypatch.setattr(line_encoder, "_BYTES_AT_ONCE", 10_000)
    monkeypatch.setattr(line_encoder, "_ROOM", 5_000)
    assert lines(engine, monkeypatch, compiled=True, threads=1) == expected


def portions_of(engine: Any) -> Iterator[line_encoder.Portion]:
    for batch in line_stream.record_batches(
        engine.sql(f"SELECT 0::INTEGER, {packed(EVERY_TYPE.column_names)} FROM rows_of_it"), 2048
    ):
        yield from line_encoder.portions(batch)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[line_encoder.LineEncoder]:
    """Gets every encoder that is made."""
    made: list[line_encoder.LineEncoder] = []
    begin = line_encoder.LineEncoder.__init__

    def watched(encoder: line_encoder.LineEncoder, resource: Resource) -> None:
        begin(encoder, resource)
        made.append(encoder)

    monkeypatch.setattr(line_encoder.LineEncoder, "__init__", watched)
    return made


def test_a_giant_cell_gets_room_and_its_encoder_is_let_go(
    engine: Any, monkeypatch: pytest.MonkeyPatch, used: list[line_encoder.LineEncoder]
) -> None:
    giant = 'ab\x01"' * 3_000_000
    insert(engine, [(number, LEADERS[0], None, text, *[None] * 10) for number, text in enumerate(["x", giant, "y"])])
    assert lines(engine, monkeypatch, compiled=True) == lines(engine, monkeypatch, compiled=False)
    monkeypatch.setattr(line_encoder, "_KEEP_BYTES", 20 << 20)
    used.clear()
    encoders = line_encoder.LineEncoders(EVERY_TYPE)
    for _ in range(2):
        for portion in portions_of(engine):
            encoders.encode(portion)
    assert [encoder.memory_bytes > 20 << 20 for encoder in used] == [True, True, False]


def test_lines_stand_while_they_are_held_and_memory_is_used_again(
    engine: Any, used: list[line_encoder.LineEncoder]
) -> None:
    encoders = line_encoder.LineEncoders(EVERY_TYPE)

    def encoded(text: str) -> LineBatch:
        insert(engine, [(1, LEADERS[0], None, text, *[None] * 10)])
        [portion] = portions_of(engine)
        [batch] = encoders.encode(portion)
        return batch

    first, second = encoded("first"), encoded("second")
    assert len(used) == 2
    for batch, text in ((first, b"first"), (second, b"second")):
        assert bytes(batch.lines["csv"][1]).count(text) == bytes(batch.lines["json"][1]).count(text) == 1
    del batch, second
    assert b"third" in bytes(encoded("third").lines["csv"][1])
    assert b"first" in bytes(first.lines["csv"][1])
    assert len(used) == 2


def test_rows_packed_otherwise_are_refused(engine: Any) -> None:
    insert(engine, [(1, LEADERS[0], *[None] * 12)])
    fewer = packed(EVERY_TYPE.column_names[:-1])
    [batch] = line_stream.record_batches(engine.sql(f"SELECT 0::INTEGER, {fewer} FROM rows_of_it"), 2048)
    [portion] = line_encoder.portions(batch)
    with pytest.raises(RunError, match="lock file"):
        line_encoder.LineEncoders(EVERY_TYPE).encode(portion)


def test_without_the_library_sql_does_the_work() -> None:
    """In a process of its own, where importing the library fails."""
    program = (
        "import sys; sys.modules['wasmtime'] = None\n"
        "from daybreak.export import line_encoder\n"
        "print(line_encoder.why_not())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "wasmtime" in said.stdout
    assert not said.stderr


def test_the_compiled_file_belongs_to_the_source() -> None:
    """Both are listed with their checksums by tools/line-encoder, which makes one of the other."""
    listed = {}
    for line in (HERE / "line_encoder.sha256").read_text("utf-8").splitlines():
        digest, name = line.split()
        listed[name] = digest
    assert sorted(listed) == ["line_encoder.c", "line_encoder.wasm"]
    for name, digest in listed.items():
        assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == digest, f"run tools/line-encoder: {name}"
