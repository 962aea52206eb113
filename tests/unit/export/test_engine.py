"""What the engine's errors mean to an operator."""

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
