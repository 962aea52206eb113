"""Undocumented behavior of DuckDB that the export relies on. A failure names what a new version changed; the fix is in
`daybreak.export.duckdb_internals`.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from daybreak.export.duckdb_internals import (
    is_file_locked,
    is_stream_failure,
    is_table_missing,
    is_temp_space_exhausted,
    packed_row,
    record_batches,
    sort_key_fault,
)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def test_sort_keys_have_the_layout_of_the_encoder(connection: duckdb.DuckDBPyConnection) -> None:
    assert sort_key_fault(connection) is None, "create_sort_key packs rows differently: adapt line_encoder.c"


def test_another_sort_key_layout_is_reported(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.export.duckdb_internals._SORT_KEY_ORDER", "'DESC NULLS LAST'")
    fault = sort_key_fault(connection)
    assert fault is not None
    assert "create_sort_key returned" in fault


def test_different_rows_have_different_sort_keys(connection: duckdb.DuckDBPyConnection) -> None:
    texts = ["", "a", "\0", "a\0", "\0a", "ab", "\x01"]
    row = packed_row(["CAST(a.t AS VARCHAR)", "CAST(b.t AS VARCHAR)"])
    found = connection.execute(
        f"SELECT count(*), count(DISTINCT {row}) FROM unnest($1) AS a(t), unnest($1) AS b(t)", [[*texts, None]]
    ).fetchall()
    assert found == [(64, 64)], "create_sort_key returns the same key for different rows: files could lose rows"


@pytest.mark.parametrize("rows_per_batch", [2048, 8192])
def test_stream_respects_the_batch_size(connection: duckdb.DuckDBPyConnection, rows_per_batch: int) -> None:
    relation = connection.sql("SELECT i FROM range(50_000) AS t (i)")
    lengths = [batch.length for batch in record_batches(relation, rows_per_batch)]
    assert sum(lengths) == 50_000
    assert max(lengths) <= rows_per_batch + 2048, (
        "the Arrow stream ignores the batch size: wide rows exceed the memory limit"
    )


def test_stream_is_lazy(connection: duckdb.DuckDBPyConnection) -> None:
    relation = connection.sql("SELECT CASE WHEN i < 1_000_000 THEN i ELSE error('read') END FROM range(2_000_000) t(i)")
    batches = record_batches(relation, 2048)
    assert next(batches).length > 0, "the Arrow stream computes all rows before the first batch"


def test_exhausted_temp_space_is_recognized(tmp_path: Path) -> None:
    with duckdb.connect(config={"memory_limit": "20MB", "temp_directory": str(tmp_path), "threads": 1}) as connection:
        connection.execute("SET max_temp_directory_size = '1MB'")
        with pytest.raises(duckdb.Error) as caught:
            connection.execute(
                "CREATE TABLE a AS SELECT hash(i) AS h, repeat('x', 100) || i FROM range(1_000_000) t(i) ORDER BY h"
            )
    assert is_temp_space_exhausted(caught.value), f"unexpected message: {caught.value}"


def test_locked_file_is_recognized(tmp_path: Path) -> None:
    path = tmp_path / "open.duckdb"
    program = (
        "import duckdb, sys\nconnection = duckdb.connect(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        with pytest.raises(duckdb.Error) as caught:
            duckdb.connect(str(path), read_only=True)
        assert writer.stdin is not None
        writer.stdin.close()
    assert is_file_locked(caught.value), f"unexpected message: {caught.value}"


def test_missing_table_is_recognized(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE VIEW broken AS SELECT 1 AS a")
    with pytest.raises(duckdb.Error) as caught:
        connection.sql("SELECT * FROM leaders")
    assert is_table_missing(caught.value, "leaders"), f"unexpected message: {caught.value}"
    assert not is_table_missing(caught.value, "members")


class FailingStream:
    """An Arrow stream that fails after its first batch."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        connection = duckdb.connect()
        failing = "SELECT CASE WHEN i < 200_000 THEN i ELSE error('data') END AS i FROM range(400_000) AS t (i)"
        return connection.sql(failing).__arrow_c_stream__(requested_schema)


def test_stream_failure_is_recognized(connection: duckdb.DuckDBPyConnection) -> None:
    connection.register("incoming", FailingStream())
    with pytest.raises(duckdb.Error) as caught:
        connection.execute("CREATE TABLE a AS SELECT * FROM incoming")
    assert is_stream_failure(caught.value), f"unexpected message: {caught.value}"
