"""Hostile cells: common CSV and JSON readers return exactly the values of the source."""

import csv
import gzip
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.csv
import pytest

from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.export.job import ExportResults
from daybreak.export.line_encoder import runtime
from daybreak.sources.duckdb import DuckdbSource
from tests.parts.export_rows import MemorySink, export_job
from tests.reference.platforms import HOSTILE, LEADERS, MEMBERS, write_duckdb

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)
RESOURCE = resource_named("custom_member_data")
# One Leader has all texts, the other only those that PostgreSQL can store.
ALL, WITHOUT_NUL = LEADERS[0], LEADERS[1]
MEGABYTE = '1 MB, "quoted", and\r\nmore ' * 40_000
MORE = ("شكرا \u200f(1)\u200e", '=HYPERLINK("http://x")', "\\N", "\\.", "\n\\.\n", "x\r", "\ry")
FieldValues = dict[str, str | None]


def field_values(leader: str) -> FieldValues:
    """Return the custom field values of one Member of a Leader. The field names are hostile too."""
    hostile = [*HOSTILE, None, MEGABYTE, *MORE]
    named = {f"{number:03} {(value or '')[:50]}": value for number, value in enumerate(hostile)}
    return {name: value for name, value in named.items() if leader == ALL or "\0" not in f"{name}{value or ''}"}


@pytest.fixture(scope="module", params=["compiled", "sql"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The unpacked files as `{leader}.csv` and `{leader}.json`. Tests run once with each of the two encoders."""
    folder = tmp_path_factory.mktemp("hostile")
    tables: dict[str, list[dict[str, Any]]] = {table.name: [] for table in SOURCE_TABLES}
    leaders = next(table for table in SOURCE_TABLES if table.name == "leaders")
    for leader in (ALL, WITHOUT_NUL):
        blank: dict[str, Any] = {column.name: None for column in leaders.columns}
        tables["leaders"].append({**blank, "leader_id": leader, "leader_name": leader})
        tables["custom_field_values"] += [
            {
                "member_id": MEMBERS[0],
                "leader_id": leader,
                "custom_field_name": name,
                "custom_field_value": value,
            }
            for name, value in field_values(leader).items()
        ]
    write_duckdb(tables, folder / "platform.duckdb")
    source = DuckdbSource(
        folder / "platform.duckdb", load_models(), memory_bytes=500_000_000, threads=2, temp_dir=folder / "spill"
    )
    sink = MemorySink()
    with pytest.MonkeyPatch.context() as patch, source.open(AS_OF) as reading:
        if request.param == "sql":
            patch.setattr(runtime, "unavailable_reason", lambda: "switched off by the test")
        reading.export(export_job(RESOURCE.name), sink, ExportResults())
    found = {}
    for leader in (ALL, WITHOUT_NUL):
        for name in ("csv", "json"):
            found[f"{leader}.{name}"] = folder / f"{leader}.{name}"
            found[f"{leader}.{name}"].write_bytes(gzip.decompress(sink.files[leader, RESOURCE.name, name]))
    return found


def read_with_python(file: Path) -> Iterator[tuple[str, str | None]]:
    before = csv.field_size_limit(sys.maxsize)
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, strict=True):
                yield row["CUSTOM_FIELD_NAME"], row["CUSTOM_FIELD_VALUE"]
    finally:
        csv.field_size_limit(before)


def read_with_duckdb(file: Path) -> Iterator[tuple[str, str | None]]:
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT CUSTOM_FIELD_NAME, CUSTOM_FIELD_VALUE FROM read_csv(?, header = true, all_varchar = true, "
            "delim = ',', quote = '\"', escape = '\"', allow_quoted_nulls = false, max_line_size = 8000000)",
            [str(file)],
        )
        yield from found.fetchall()


def read_with_pandas(file: Path) -> Iterator[tuple[str, str | None]]:
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    yield from zip(frame["CUSTOM_FIELD_NAME"], frame["CUSTOM_FIELD_VALUE"], strict=True)


def read_with_pandas_python_engine(file: Path) -> Iterator[tuple[str, str | None]]:
    before = csv.field_size_limit(sys.maxsize)
    try:
        frame = pd.read_csv(file, dtype=str, keep_default_na=False, engine="python")
    finally:
        csv.field_size_limit(before)
    yield from zip(frame["CUSTOM_FIELD_NAME"], frame["CUSTOM_FIELD_VALUE"], strict=True)


def read_with_polars(file: Path) -> Iterator[tuple[str, str | None]]:
    frame = pl.read_csv(file, infer_schema=False)
    yield from zip(frame["CUSTOM_FIELD_NAME"], frame["CUSTOM_FIELD_VALUE"], strict=True)


def read_with_pyarrow(file: Path) -> Iterator[tuple[str, str | None]]:
    table = pyarrow.csv.read_csv(
        io.BytesIO(file.read_bytes()),
        read_options=pyarrow.csv.ReadOptions(block_size=16 << 20),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(RESOURCE.column_names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield from zip(*(table[name].to_pylist() for name in RESOURCE.column_names[2:]), strict=True)


# Each reader, and whether it distinguishes an empty text from NULL.
READERS: dict[str, tuple[Callable[[Path], Iterator[tuple[str, str | None]]], bool]] = {
    "csv": (read_with_python, False),
    "duckdb": (read_with_duckdb, True),
    "pandas": (read_with_pandas, False),
    "pandas with the Python engine": (read_with_pandas_python_engine, False),
    "polars": (read_with_polars, True),
    "pyarrow": (read_with_pyarrow, True),
}


def as_read(values: FieldValues, distinguishes_null: bool) -> FieldValues:
    return values if distinguishes_null else {name: value or "" for name, value in values.items()}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("leader", [ALL, WITHOUT_NUL])
def test_csv_reader_returns_every_cell(reader: str, leader: str, files: dict[str, Path]) -> None:
    if reader == "pandas" and leader == ALL:
        # The C parser of pandas ends a text at NUL. Its Python parser does not.
        assert dict(read_with_pandas(files[f"{leader}.csv"])).keys() == {
            name.split("\0")[0] for name in field_values(leader)
        }
        return
    read, distinguishes_null = READERS[reader]
    assert dict(read(files[f"{leader}.csv"])) == as_read(field_values(leader), distinguishes_null)


def test_postgresql_copy_returns_every_cell(files: dict[str, Path], postgresql_url: str) -> None:
    content = files[f"{WITHOUT_NUL}.csv"].read_bytes()
    with psycopg.connect(postgresql_url) as connection, connection.cursor() as cursor:
        columns = ", ".join(f'"{name}" text' for name in RESOURCE.column_names)
        cursor.execute(f"CREATE TABLE imported ({columns})".encode())
        with cursor.copy("COPY imported FROM STDIN (FORMAT csv, HEADER match)") as copy:
            copy.write(content)
        cursor.execute('SELECT "CUSTOM_FIELD_NAME", "CUSTOM_FIELD_VALUE" FROM imported')
        assert dict(cursor.fetchall()) == field_values(WITHOUT_NUL)


def test_python_json_reader_returns_every_cell(files: dict[str, Path]) -> None:
    rows = json.loads(files[f"{ALL}.json"].read_bytes())
    assert {row["CUSTOM_FIELD_NAME"]: row["CUSTOM_FIELD_VALUE"] for row in rows} == field_values(ALL)


def test_node_json_reader_returns_every_cell(files: dict[str, Path]) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed: apt-get install nodejs")
    # UTF-16 code units are numbers, so their JSON cannot hide a difference between two texts.
    program = """
        const rows = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
        const units = (text) => text === null ? null : Array.from({length: text.length}, (_, i) => text.charCodeAt(i));
        const cells = rows.map((row) => [units(row.CUSTOM_FIELD_NAME), units(row.CUSTOM_FIELD_VALUE)]);
        process.stdout.write(JSON.stringify(cells));
    """
    done = subprocess.run([node, "-e", program, files[f"{ALL}.json"]], capture_output=True, check=True)

    def text_of(units: list[int] | None) -> str | None:
        return None if units is None else b"".join(unit.to_bytes(2, "little") for unit in units).decode("utf-16-le")

    found = {text_of(name): text_of(value) for name, value in json.loads(done.stdout)}
    assert found == field_values(ALL)
