"""The embedded engine: settings, and conversion of its errors."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from daybreak.domain.errors import OperatorError, RunError, SourceError
from daybreak.export.engine import engine_faults, open_engine


@pytest.mark.parametrize(
    ("temp_space", "code", "message"),
    [("1MB", "disk_short", r"set snapshot\.temp_dir"), ("10GB", "run_failed", r"Raise snapshot\.memory_limit")],
)
def test_full_disk_differs_from_low_memory_limit(tmp_path: Path, temp_space: str, code: str, message: str) -> None:
    engine = open_engine(memory_bytes=20_000_000, threads=1, temp_dir=tmp_path)
    engine.execute(f"SET max_temp_directory_size = '{temp_space}'")
    # Many small rows can spill. One row of 100 MB cannot.
    rows = "SELECT hash(i) AS a, repeat('x', 100) || i AS b FROM range(1_000_000) AS t (i) ORDER BY a"
    large_row = "SELECT repeat('x', 100_000_000) AS b"
    with pytest.raises(RunError, match=message) as caught, engine_faults("Table a"):
        engine.execute(f"CREATE TABLE a AS {rows if code == 'disk_short' else large_row}")
    assert caught.value.code == code
    engine.close()


@pytest.mark.parametrize(("memory_bytes", "threads"), [(370_000_000, 11), (32_000_000, 1), (20_000_000, 1)])
def test_memory_limits_the_number_of_threads(tmp_path: Path, memory_bytes: int, threads: int) -> None:
    for requested, expected in ((16, threads), (1, 1)):
        with closing(open_engine(memory_bytes=memory_bytes, threads=requested, temp_dir=tmp_path)) as engine:
            assert engine.execute("SELECT current_setting('threads')").fetchall() == [(expected,)]


def test_other_errors_are_source_errors(tmp_path: Path) -> None:
    engine = open_engine(memory_bytes=20_000_000, threads=1, temp_dir=tmp_path)
    with pytest.raises(SourceError, match=r"^Table a cannot be read: "), engine_faults("Table a"):
        engine.execute("SELECT * FROM a")
    engine.close()


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("CAST(x AS INTEGER)", r"Could not convert string … \(column x\)"),
        ("CAST(x || chr(10) || chr(39) AS BOOLEAN)", "Could not convert string …"),
        ("CAST(x AS DATE)", r"invalid date field format: … \(column x\)"),
        ("CAST(x AS JSON)", "Malformed JSON"),
        ("CAST(number AS TINYINT)", r"Type INT32 with … \(column number\)"),
        ("CAST(number AS SMALLINT) + 32000::SMALLINT", "Overflow in addition of INT16 …"),
        ("strptime(x, '%Y')", "Could not parse string …"),
        ("error('Bad name ' || x)", "Invalid Input Error: …"),
        ("regexp_matches('a', '(' || x)", "Invalid Input Error: …"),
        ("json_extract('{}', '$' || x)", "JSON path error near …"),
        ("make_date(number * 1_000_000_000_000, 1, 1)", "Type INT64 with value …"),
        ("timezone(x, TIMESTAMP '2026-01-01')", "Unknown TimeZone …"),
    ],
)
def test_values_of_rows_are_not_in_messages(tmp_path: Path, expression: str, kept: str) -> None:
    engine = open_engine(memory_bytes=20_000_000, threads=1, temp_dir=tmp_path)
    with pytest.raises(SourceError, match=f"^Table a cannot be read: .*{kept}") as caught, engine_faults("Table a"):
        engine.execute(f"SELECT {expression} FROM (VALUES ('{{hunter2', 7771)) AS t (x, number)")
    assert "hunter2" not in caught.value.message
    assert "7771" not in caught.value.message
    engine.close()


def test_unusable_temp_dir_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperatorError, match=r"snapshot\.temp_dir"):
        open_engine(memory_bytes=20_000_000, threads=1, temp_dir=tmp_path / "file" / "spill")


def test_time_zone_of_the_machine_is_ignored(tmp_path: Path) -> None:
    # In a separate process, because the engine reads the time zone only once.
    script = (
        "import sys, pathlib; from daybreak.export.engine import open_engine; "
        "engine = open_engine(memory_bytes=100_000_000, threads=1, temp_dir=pathlib.Path(sys.argv[1])); "
        "instant = \"SELECT CAST(CAST(TIMESTAMPTZ '2026-11-01 06:30:00+00' AS TIMESTAMP) AS VARCHAR)\"; "
        "print(*(each.execute(instant).fetchall()[0][0] for each in (engine, engine.cursor())), sep='|')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "TZ": "America/New_York"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "2026-11-01 06:30:00|2026-11-01 06:30:00\n"
