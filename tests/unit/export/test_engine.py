"""What the engine's errors mean to an operator."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daybreak.domain.errors import RunError
from daybreak.export.engine import engine_faults, open_engine


@pytest.mark.parametrize(
    ("room", "code", "said"),
    [("1MB", "disk_short", r"set snapshot\.temp_dir"), ("10GB", "run_failed", r"raise snapshot\.memory_limit")],
)
def test_a_disk_that_takes_no_more_is_told_from_memory_that_is_too_small(
    tmp_path: Path, room: str, code: str, said: str
) -> None:
    engine = open_engine(memory_bytes=20_000_000, threads=1, temp_dir=tmp_path)
    engine.execute(f"SET max_temp_directory_size = '{room}'")
    # Rows of many cells can be put aside, one of 100 MB cannot.
    rows = "SELECT hash(i) AS a, repeat('x', 100) || i AS b FROM range(1_000_000) AS t (i) ORDER BY a"
    one = "SELECT repeat('x', 100_000_000) AS b"
    with pytest.raises(RunError, match=said) as caught, engine_faults("Table a"):
        engine.execute(f"CREATE TABLE a AS {rows if code == 'disk_short' else one}")
    assert caught.value.code == code
    engine.close()


def test_the_zone_of_the_machine_moves_no_instant(tmp_path: Path) -> None:
    # In a process of its own: the engine asks for the zone once.
    script = (
        "import sys, pathlib; from daybreak.export.engine import open_engine; "
        "engine = open_engine(memory_bytes=100_000_000, threads=1, temp_dir=pathlib.Path(sys.argv[1])); "
        "instant = \"SELECT CAST(CAST(TIMESTAMPTZ '2026-11-01 06:30:00+00' AS TIMESTAMP) AS VARCHAR)\"; "
        "print(*(each.execute(instant).fetchall()[0][0] for each in (engine, engine.cursor())), sep='|')"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "TZ": "America/New_York"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout == "2026-11-01 06:30:00|2026-11-01 06:30:00\n"
