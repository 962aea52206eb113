"""The check that a way made the same rows: what it must overlook, and what it must not."""

import gzip
from pathlib import Path

import pytest

from benchmarks.source import Shape, make_shape
from benchmarks.verify import OtherRows, check, content_of_source
from benchmarks.ways import BY_NAME

THREE_LEADERS = Shape("three", "three Leaders", 3, "SELECT n, n % 3 AS leader FROM range(60) AS t(n)")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_shape(tmp_path, THREE_LEADERS)


@pytest.mark.parametrize("way", ["daybreak", "duckdb", "python"])
def test_ways_that_write_differently_hold_the_same_rows(way: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    BY_NAME[way](source, out)
    check(out, content_of_source(source))


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("csv", b"Ana", b"Eva"),
        ("json", b"Ana", b"Eva"),
        ("csv", b".org", b".net"),
        ("json", b'"live"', b'"dead"'),
        ("csv", b"1990-01-", b"1991-01-"),
        ("json", b'"state_code"'.upper(), b'"other_code"'.upper()),
    ],
)
def test_one_other_cell_is_found(kind: str, old: bytes, new: bytes, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    BY_NAME["python"](source, out)
    expected = content_of_source(source)
    path = next((out / kind).iterdir())
    content = gzip.decompress(path.read_bytes())
    assert old in content
    path.write_bytes(gzip.compress(content.replace(old, new, 1)))
    with pytest.raises(OtherRows):
        check(out, expected)


def test_a_file_with_rows_of_two_leaders_is_found(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    BY_NAME["python"](source, out)
    first, second, *_ = sorted((out / "json").iterdir())
    first.write_bytes(gzip.compress(gzip.decompress(first.read_bytes()) + gzip.decompress(second.read_bytes())))
    second.unlink()
    with pytest.raises(OtherRows, match="several Leaders"):
        check(out, content_of_source(source))
