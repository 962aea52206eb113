"""Verification of the files of a method."""

import gzip
from pathlib import Path

import pytest

from benchmarks.methods import BY_NAME
from benchmarks.source import Shape, make_shape
from benchmarks.verify import RowMismatch, source_content, verify_files

THREE_LEADERS = Shape("three", "three Leaders", 3, "SELECT n, n % 3 AS leader FROM range(60) AS t(n)")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_shape(tmp_path, THREE_LEADERS)


@pytest.mark.parametrize("method", ["daybreak", "duckdb", "python"])
def test_different_encodings_of_the_same_rows_are_accepted(method: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    BY_NAME[method](source, out)
    verify_files(out, source_content(source))


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
def test_changed_cell_is_found(kind: str, old: bytes, new: bytes, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    BY_NAME["python"](source, out)
    expected = source_content(source)
    path = next((out / kind).iterdir())
    content = gzip.decompress(path.read_bytes())
    assert old in content
    path.write_bytes(gzip.compress(content.replace(old, new, 1)))
    with pytest.raises(RowMismatch):
        verify_files(out, expected)


def test_file_with_two_leaders_is_rejected(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    BY_NAME["python"](source, out)
    first, second, *_ = sorted((out / "json").iterdir())
    first.write_bytes(gzip.compress(gzip.decompress(first.read_bytes()) + gzip.decompress(second.read_bytes())))
    second.unlink()
    with pytest.raises(RowMismatch, match="several Leaders"):
        verify_files(out, source_content(source))
