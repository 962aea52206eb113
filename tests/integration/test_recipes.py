"""Recipes that load files: every cell of hostile files, by `daybreak types` and by `daybreak_client.read`."""

import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest

import daybreak_client
from daybreak_client.command import run
from daybreak_client.tables import BIGINT, BOOLEAN, DATE, TEXT, TIMESTAMP, Table, released_tables
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.presence import absent

ROOT = Path(__file__).parents[2]
TABLES = {table.name: table for table in released_tables()}
ROWS = 700
FIRST_ROWS = 600
TEXTS = (
    "06", "0", "-0", "1e5", "00907352445646400012", "9" * 40, "", None, "\\.", "a\n\\.\nb", "\n\\.\n", "\n\\.\r\n",
    'say "no"', '"', '""', ",", "a,b\nc", "\r\n", " x ", "NA", "null", "NULL", "NaN", "None", "inf", "true", "T",
    "2026-11-20", "\N{GRINNING FACE}", "\u0639\u0631\u0628", "\ufeffx", "=1+1", "#", "'", "\\N", "\\n", "a\tb", "%s",
)  # fmt: skip
NUMBERS = (0, None, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 1 - 2**63, 7)
BOOLEANS = (True, None, False)
DATES = (date(1, 1, 1), None, date(9999, 12, 31), date(1969, 12, 31), date(2024, 2, 29))
TIMES = (
    datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    None,
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 11, 20, 4, 0, 0, 123457, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
)
VALUES: Mapping[str, tuple[Any, ...]] = {
    TEXT: TEXTS, BIGINT: NUMBERS, BOOLEAN: BOOLEANS, DATE: DATES, TIMESTAMP: TIMES,
}  # fmt: skip
Row = tuple[Any, ...]


def rows_of(table: Table) -> list[Row]:
    """Hostile rows. The first 600 of one column in two are NULL, from which readers guess a type."""
    return [
        tuple(
            str(UUID(int=number))
            if column.kind not in VALUES
            else None
            if place % 2 and number < FIRST_ROWS
            else VALUES[column.kind][(number + place) % len(VALUES[column.kind])]
            for place, column in enumerate(table.columns)
        )
        for number in range(ROWS)
    ]


def cell(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%m-%dT%H:%M:%S.%fZ}".join([f"{value.year:04}-", ""])
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def csv_file(table: Table, rows: list[Row]) -> bytes:
    lines = [",".join(f'"{name}"' for name in table.column_names)]
    for row in rows:
        cells = [
            "" if value is None else '"{}"'.format(value.replace('"', '""')) if isinstance(value, str) else cell(value)
            for value in row
        ]
        lines.append(",".join(cells))
    return ("\n".join(lines) + "\n").encode()


def json_value(value: Any) -> Any:
    return cell(value) if isinstance(value, date) else value


@pytest.fixture(scope="module", params=["hostile", "empty"])
def expected(request: pytest.FixtureRequest) -> dict[str, list[Row]]:
    return {name: rows_of(table) if request.param == "hostile" else [] for name, table in TABLES.items()}


@pytest.fixture(scope="module")
def folder(expected: dict[str, list[Row]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nine files as CSV, JSON, NDJSON and Parquet."""
    found = tmp_path_factory.mktemp("recipes") / "exports"
    found.mkdir()
    kinds = {BIGINT: pa.int64(), BOOLEAN: pa.bool_(), DATE: pa.date32(), TIMESTAMP: pa.timestamp("us", "UTC")}
    for name, table in TABLES.items():
        rows = expected[name]
        records = [json.dumps(dict(zip(table.column_names, map(json_value, row), strict=True))) for row in rows]
        (found / f"{name}.csv.gz").write_bytes(gzip.compress(csv_file(table, rows)))
        (found / f"{name}.json.gz").write_bytes(gzip.compress(f"[{','.join(records)}]".encode()))
        (found / f"{name}.ndjson").write_text("\n".join(records) + "\n", "utf-8")
        schema = pa.schema([(column.name, kinds.get(column.kind, pa.string())) for column in table.columns])
        columns = [pa.array([row[at] for row in rows], schema.types[at]) for at in range(len(table.columns))]
        pyarrow.parquet.write_table(pa.table(columns, schema=schema), found / f"{name}.parquet")
    return found


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAYBREAK_SERVICE", raising=False)
        patch.setenv("XDG_CONFIG_HOME", "/nonexistent")
        assert run(["types", *arguments]) == 0
    return capsys.readouterr().out


def from_pandas(frame: pd.DataFrame, table: Table) -> list[Row]:
    assert tuple(frame.columns) == table.column_names
    types = {BIGINT: "Int64", BOOLEAN: "boolean", DATE: "datetime64[ms]", TIMESTAMP: "datetime64[us, UTC]"}
    assert [str(each) for each in frame.dtypes] == [types.get(column.kind, "string") for column in table.columns]
    columns = []
    for column in table.columns:
        values: list[Any] = [None if value is pd.NaT or value is pd.NA else value for value in frame[column.name]]
        if column.kind in {DATE, TIMESTAMP}:
            numbers = frame[column.name].astype("int64").tolist()
            values = [value and number for value, number in zip(values, numbers, strict=True)]
            step = timedelta(milliseconds=1) if column.kind == DATE else timedelta(microseconds=1)
            values = [None if value is None else datetime(1970, 1, 1, tzinfo=UTC) + value * step for value in values]
        if column.kind == DATE:
            values = [value and value.date() for value in values]
        columns.append(values)
    return list(zip(*columns, strict=True))


def from_polars(frame: pl.DataFrame, table: Table) -> list[Row]:
    types = {BIGINT: pl.Int64(), BOOLEAN: pl.Boolean(), DATE: pl.Date(), TIMESTAMP: pl.Datetime("us", "UTC")}
    assert dict(frame.schema) == {column.name: types.get(column.kind, pl.String()) for column in table.columns}
    return frame.rows()


def from_duckdb(relation: duckdb.DuckDBPyRelation, table: Table) -> list[Row]:
    types = {BIGINT: "BIGINT", BOOLEAN: "BOOLEAN", DATE: "DATE", TIMESTAMP: "TIMESTAMP WITH TIME ZONE", TEXT: "VARCHAR"}
    assert relation.columns == list(table.column_names)
    assert list(map(str, relation.types)) == [types.get(column.kind, "UUID") for column in table.columns]
    rows = relation.fetchall()
    return [
        tuple(
            str(value) if isinstance(value, UUID) else value.astimezone(UTC) if isinstance(value, datetime) else value
            for value in row
        )
        for row in rows
    ]


FROM: Mapping[str, Callable[[Any, Table], list[Row]]] = {
    "pandas": from_pandas,
    "polars": from_polars,
    "duckdb": from_duckdb,
}


def missing(rows: list[Row]) -> list[Row]:
    """Return rows as readers see them that do not distinguish NULL and the empty string."""
    return [tuple(None if value == "" else value for value in row) for row in rows]


@pytest.mark.parametrize("engine", FROM)
@pytest.mark.parametrize("ending", [".csv.gz", ".json.gz", ".ndjson", ".parquet"])
def test_read_returns_every_cell(engine: Any, ending: str, folder: Path, expected: dict[str, list[Row]]) -> None:
    duckdb.execute("SET TimeZone = 'UTC'")
    for name, table in TABLES.items():
        if ending == ".ndjson" and not expected[name]:
            (folder / f"{name}.ndjson").write_bytes(b"")
        found = daybreak_client.read(folder / f"{name}{ending}", engine=engine)
        assert FROM[engine](found, table) == expected[name], name


def test_pandas_recipe_returns_every_cell(
    folder: Path, expected: dict[str, list[Row]], capsys: pytest.CaptureFixture[str]
) -> None:
    found: dict[str, Any] = {}
    with chdir(folder):
        exec(printed(capsys, "--pandas"), found)
    for name, table in TABLES.items():
        assert from_pandas(found[name], table) == missing(expected[name]), name


def test_polars_recipe_returns_every_cell(
    folder: Path, expected: dict[str, list[Row]], capsys: pytest.CaptureFixture[str]
) -> None:
    found: dict[str, Any] = {}
    with chdir(folder):
        exec(printed(capsys, "--polars"), found)
    for name, table in TABLES.items():
        assert from_polars(found[name], table) == expected[name], name


def test_duckdb_recipe_returns_every_cell(
    folder: Path, expected: dict[str, list[Row]], capsys: pytest.CaptureFixture[str]
) -> None:
    with chdir(folder), duckdb.connect() as database:
        database.execute(printed(capsys, "--duckdb"))
        for name, table in TABLES.items():
            assert from_duckdb(database.table(name), table) == expected[name], name


# Writes each cell as text, NULL as an empty cell that is not quoted.
R_OUTPUT = """
for (name in c({names})) {{
  table <- get(name)
  kinds <- sapply(table, function(column) class(column)[1])
  microseconds <- function(x) {{
    seconds <- floor(unclass(x))
    parts <- sprintf("%.0f %.0f", seconds, round((unclass(x) - seconds) * 1e6))
    ifelse(is.na(x), NA, parts)
  }}
  table[] <- lapply(table, function(x) if (inherits(x, "POSIXct")) microseconds(x) else if (inherits(x, "Date"))
    as.integer(x) else x)
  write.csv(table, paste0(name, ".out"), row.names = FALSE, na = "", fileEncoding = "UTF-8")
  writeLines(paste(names(kinds), kinds), paste0(name, ".kinds"))
}}
"""


def test_r_recipe_returns_every_cell(
    folder: Path, expected: dict[str, list[Row]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times are numbers of seconds in R, exact to the microsecond near 1970. R changes CR LF to LF."""
    if shutil.which("Rscript") is None:
        absent("R", "apt-get install r-base-core")
    work = shutil.copytree(folder, tmp_path / "work")
    names = ", ".join(f'"{name}"' for name in TABLES)
    (work / "load.R").write_text(printed(capsys, "--r") + R_OUTPUT.format(names=names), "utf-8")
    subprocess.run(["Rscript", "load.R"], cwd=work, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=300)
    types = {BOOLEAN: "logical", DATE: "Date", TIMESTAMP: "POSIXct"}
    for name, table in TABLES.items():
        kinds = (work / f"{name}.kinds").read_text("utf-8").split("\n")[:-1]
        assert kinds == [f"{column.name} {types.get(column.kind, 'character')}" for column in table.columns]
        with (work / f"{name}.out").open(encoding="utf-8", newline="") as lines:
            found = list(csv.reader(lines))[1:]
        wanted = [[r_cell(value) for value in row] for row in missing(expected[name])]
        assert [[near(text) for text in row] for row in found] == wanted, name


def r_cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return near(f"{(value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)} {value.microsecond}")
    if isinstance(value, date):
        return str((value - date(1970, 1, 1)).days)
    if isinstance(value, bool):
        return str(value).upper()
    return "" if value is None else str(value).replace("\r\n", "\n")


def near(text: str) -> Any:
    """Round the microseconds of a time far from 1970 to what its number can represent."""
    seconds = re.fullmatch(r"(-?[0-9]+) ([0-9]{1,7})", text)
    if not seconds:
        return text
    microseconds = int(seconds[1]) * 10**6 + int(seconds[2])
    return "time", microseconds if abs(microseconds) < 2**53 else round(microseconds / 10**3)


def psql_programs(server: PostgreSQLServer) -> Iterator[Path]:
    """The client of the server, and that of the system, which may be older than version 18."""
    yield server.binaries / "psql"
    if (system := shutil.which("psql")) is not None:
        yield Path(system)


def guide_blocks() -> list[str]:
    page = (ROOT / "docs/how-to/load-into-postgresql.md").read_text("utf-8")
    return [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "load.sh" in block]


def test_psql_recipe_returns_every_cell(
    folder: Path, expected: dict[str, list[Row]], postgresql_server: PostgreSQLServer, tmp_path: Path
) -> None:
    from daybreak.catalogue.table_ddl import create_tables

    (load,) = guide_blocks()
    work = tmp_path / "work"
    shutil.copytree(folder, work / "exports")
    for program in psql_programs(postgresql_server):
        database = postgresql_server.fresh_database()
        url = postgresql_server.url(database)
        # Hostile rows have NULL in every column.
        tables = create_tables("postgresql").replace(" NOT NULL", "")
        path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
        with psycopg.connect(url) as connection:
            connection.execute("CREATE SCHEMA daybreak")
            connection.execute("SET search_path TO daybreak")
            connection.execute(re.sub(r",\n  PRIMARY KEY[^\n]*", "", tables).encode())
        script = f"set -eu\n{load}"
        environment = {"PATH": path, "DATABASE_URL": url, "LC_ALL": "C.UTF-8"}
        subprocess.run(["bash", "-c", script], cwd=work, env=environment, check=True, capture_output=True, timeout=120)
        with psycopg.connect(url) as connection:
            for name, table in TABLES.items():
                columns = ", ".join(
                    f'CAST("{column.name}" AS text)' if column.kind not in {BIGINT, BOOLEAN} else f'"{column.name}"'
                    for column in table.columns
                )
                connection.execute("SET TimeZone = 'UTC'")
                found = connection.execute(f"SELECT {columns} FROM daybreak.{name} ORDER BY ctid".encode()).fetchall()
                assert found == [tuple(map(postgresql_text, row)) for row in expected[name]], (program, name)


def postgresql_text(value: Any) -> Any:
    if not isinstance(value, datetime):
        return cell(value) if isinstance(value, date) else value
    seconds = f"{value:%S}.{value.microsecond:06}".rstrip("0").rstrip(".")
    return f"{value.year:04}-{value:%m-%d %H:%M}:{seconds}+00"


def test_read_accepts_what_browsers_make_of_a_file(tmp_path: Path) -> None:
    """A decompressed file with the name of a compressed one, a copy with another name, and a new column."""
    content = b'"MEMBER_ID","PHONE_NUMBER","NEW"\n"a","06","007"\n'
    (tmp_path / "members.csv.gz").write_bytes(content)
    (tmp_path / "members (1).csv").write_bytes(content)
    for name in ("members.csv.gz", "members (1).csv"):
        assert daybreak_client.read(tmp_path / name, engine="polars").rows() == [("a", "06", "007")]
    schema = {
        "resources": [
            {
                "name": "members",
                "order": ["LEADER_ID"],
                "schema": {
                    "fields": [
                        {"name": "LEADER_ID", "type": "string", "format": "uuid"},
                        {"name": "NEW", "type": "integer"},
                    ]
                },
            }
        ]
    }
    assert daybreak_client.read(tmp_path / "members.csv.gz", engine="polars", schema=schema).rows() == [("a", "06", 7)]


def parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("members.csv.gz", b""),
        ("members.csv.gz", gzip.compress(b'"A"\n"1"\n', mtime=0)[:-4]),
        ("members.csv", b'"SENT_AT"\nsecret\n'),
        ("members.json", b"[" * 100_000),
        ("members.json", b'[{"A": "secret"}, {}]'),
        ("members.json", b'[{"SENT_AT": "secret"}]'),
        ("members.json", b'{"A": "secret"}'),
        ("members.json", b"\xff"),
        ("members.parquet", b"secret"),
        ("members.parquet", b"PAR1" + bytes(100) + b"PAR1"),
        ("members.parquet", parquet(pa.table({"A": [["secret"]]}))),
        ("members.csv", b'"A","A"\n"secret","secret"\n'),
        ("members.csv", b'"A","A"" , getenv(\'HOME\') AS ""secret"\n"x","y"\n'),
        ("members.ndjson", b'{"secret*": "x"}\n'),
    ],
)
def test_read_refuses_damaged_files_without_their_values(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(daybreak_client.Damaged) as refusal:
        daybreak_client.read(tmp_path / name)
    assert name in refusal.value.message
    assert "secret" not in refusal.value.message


def test_read_and_types_name_the_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(daybreak_client.WrongUse, match="is not an engine"):
        daybreak_client.read(tmp_path / "a.csv", engine="excel")  # type: ignore[arg-type]
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(daybreak_client.WrongUse, match="does not end in"):
        daybreak_client.read(tmp_path / "a.xlsx")
    for arguments, message in (([], "Select one of"), (["--r", "--duckdb"], "Select one of")):
        assert run(["types", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert run(["types", "payments", "--r"]) == 2
    assert "'payments' is not a resource" in capsys.readouterr().err
    text = printed(capsys, "communities", "--duckdb")
    assert text.count("CREATE OR REPLACE TABLE") == 1
    assert io.StringIO(text).readline() == "SET TimeZone = 'UTC';\n"
