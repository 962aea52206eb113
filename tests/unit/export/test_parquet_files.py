"""Parquet files: typed columns, the same rows as the text formats, the same bytes in every export."""

import hashlib
import io
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest

from daybreak.catalogue.columns import field_id
from daybreak.catalogue.resources import resource_named
from daybreak.domain.snapshot import PARQUET_MAGIC, FileStatistics
from daybreak.export import parquet_files, parquet_parts
from daybreak.export.job import ExportResults
from daybreak.export.resource_export import export_resource
from tests.parts.export_rows import MemorySink, export_job, sample_rows

LEADERS = [f"{number:08x}-0000-4000-8000-000000000000" for number in (0x0A, 0x7F, 0x80, 0xFF)]
CHANGES = "member_state_changes"
CUSTOM = "custom_member_data"
FORMATS = ("csv", "parquet", "json")


def member(number: int) -> str:
    return f"{number:08x}-1111-4111-8111-111111111111"


def export(
    folder: Path, resource: str, rows: Sequence[Sequence[object]], *, threads: int = 2
) -> tuple[MemorySink, ExportResults]:
    """Return the sink with the Parquet files only."""
    sink, results = MemorySink(), ExportResults()
    with sample_rows(folder, {resource: rows}, LEADERS, threads=threads) as sample:
        export_resource(sample, export_job(resource, FORMATS, threads=threads), sink, results)
    sink.files = {key: content for key, content in sink.files.items() if key[2] == "parquet"}
    return sink, results


def read_parquet(stored: bytes, folder: Path) -> tuple[list[str], list[list[object]]]:
    """Return the columns as `NAME TYPE`, and the rows as text."""
    path = folder / "read.parquet"
    path.write_bytes(stored)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        described = connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
        text = ", ".join(f'CAST("{row[0]}" AS VARCHAR)' for row in described)
        rows = connection.execute(f"SELECT {text} FROM '{path}'").fetchall()
    return [f"{row[0]} {row[1]}" for row in described], [list(row) for row in rows]


def test_columns_are_typed_and_rows_complete(tmp_path: Path) -> None:
    rows = [
        (member(number), LEADERS[number % 2], state, datetime(2026, 1, 1, 0, 0, 0, number))
        for number, state in enumerate(["live", None, "", 'he said "no"', "\x00", "\U0001f600"])
    ]
    sink, results = export(tmp_path, CHANGES, rows)
    assert [list(entry.formats) for entry in results.entries] == [list(FORMATS)] * 3
    assert results.rows == len(rows)
    for entry in results.entries:
        stored = sink.files[entry.client_id, CHANGES, "parquet"]
        assert entry.formats["parquet"].sha256 == hashlib.sha256(stored).hexdigest()
        assert entry.formats["parquet"].content_sha256 == entry.formats["parquet"].sha256
        columns, found = read_parquet(stored, tmp_path)
        assert columns == [
            "MEMBER_ID VARCHAR",
            "LEADER_ID VARCHAR",
            "SUBSCRIPTION_STATE VARCHAR",
            "STATE_CHANGED_AT TIMESTAMP WITH TIME ZONE",
        ]
        own = [row for row in rows if row[1] == entry.client_id]
        assert found == [
            [r[0], r[1], r[2], f"{r[3]:%Y-%m-%d %H:%M:%S}{f'.{r[3]:%f}'.rstrip('0').rstrip('.')}+00"] for r in own
        ]


def test_bytes_do_not_depend_on_threads(tmp_path: Path) -> None:
    rows = [
        (member(number * 7919 % 1_000_003), LEADERS[number % 4], f"field {number % 5}", "x" * (number % 97))
        for number in range(5000)
    ]
    one, _ = export(tmp_path, CUSTOM, rows, threads=1)
    rows.reverse()
    three, _ = export(tmp_path, CUSTOM, rows, threads=3)
    assert one.files == three.files
    assert len(one.files) == 5


def test_files_have_statistics_and_a_page_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_BYTES_AT_ONCE", 1 << 20)
    count = 3000
    rows = [
        (
            member(number),
            LEADERS[0 if number < count - 5 else 1],
            f"field {number}",
            None if number % 3 else "x" * 2_000,
        )
        for number in range(count)
    ]
    sink, results = export(tmp_path, CUSTOM, rows)
    found = {}
    for entry in results.entries:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(sink.files[entry.client_id, CUSTOM, "parquet"]))
        table = file.read()
        statistics = entry.formats["parquet"].statistics
        assert statistics == FileStatistics(len(table), tuple(column.null_count for column in table.columns))
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        found[entry.client_id] = [group.num_rows for group in groups]
        for group in groups:
            first = group.column(0)
            assert first.has_column_index
            assert first.has_offset_index
            assert first.statistics.min <= first.statistics.max
            assert group.column(3).statistics.null_count is not None
    # Row groups of wide rows are smaller.
    assert found == {"": [], LEADERS[0]: [2048, count - 5 - 2048], LEADERS[1]: [5]}


def test_timestamps_have_a_time_zone(tmp_path: Path) -> None:
    rows = [(member(1), LEADERS[0], "live", datetime(2026, 1, 1))]
    sink, _ = export(tmp_path, CHANGES, rows)
    for content in sink.files.values():
        schema = pyarrow.parquet.read_schema(io.BytesIO(content))
        assert [str(field.type) for field in schema] == ["string", "string", "string", "timestamp[us, tz=UTC]"]


def test_columns_have_the_field_ids_of_their_names(tmp_path: Path) -> None:
    """Iceberg reads columns by them. Ids that change would mix up the columns of stored versions."""
    sink, _ = export(tmp_path, CHANGES, [(member(1), LEADERS[0], "live", datetime(2026, 1, 1))])
    found = [pyarrow.parquet.read_schema(io.BytesIO(content)) for content in sink.files.values()]
    assert len(found) == 2, "one of them has no rows"
    for schema in found:
        ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema}
        assert ids == {name: field_id(name) for name in resource_named(CHANGES).column_names}
        assert ids["MEMBER_ID"] == 152603634


def test_temporary_files_are_removed(tmp_path: Path) -> None:
    export(tmp_path, CUSTOM, [(member(1), LEADERS[0], "field", "value")])
    assert list(tmp_path.iterdir()) == []


def test_large_files_have_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is a file, and the parts together have the rows of the whole file, in order."""
    monkeypatch.setattr(parquet_files, "_BYTES_AT_ONCE", 1 << 20)
    rows = [
        (member(number), LEADERS[number % 4 // 3], f"field {number}", None if number % 5 else f"{number % 77}" * 400)
        for number in range(24_000)
    ]
    whole, _ = export(tmp_path, CUSTOM, rows)
    size = len(whole.files[LEADERS[0], CUSTOM, "parquet"])
    monkeypatch.setattr(parquet_parts, "MAX_FILE_BYTES", size // 3)
    sink, results = export(tmp_path, CUSTOM, rows)
    stored = {entry.client_id: entry.formats["parquet"] for entry in results.entries}
    assert (stored[""].parts, stored[""].files) == ((), (stored[""],))
    large, content = stored[LEADERS[0]], sink.files[LEADERS[0], CUSTOM, "parquet"]
    assert large.sha256 == hashlib.sha256(content).hexdigest()
    expected = pyarrow.parquet.read_table(io.BytesIO(content))
    assert expected.num_rows == 18_000
    assert len(large.parts) >= 3
    tables = []
    for part in large.parts:
        assert size / 6 < part.bytes < size / 3
        footer = content[part.footer_start : part.footer_start + part.footer_bytes]
        data_bytes = part.bytes - len(PARQUET_MAGIC) - len(footer)
        own = PARQUET_MAGIC + content[part.start : part.start + data_bytes] + footer
        assert (len(own), hashlib.sha256(own).hexdigest()) == (part.bytes, part.sha256)
        table = pyarrow.parquet.read_table(io.BytesIO(own))
        assert part.statistics == FileStatistics(table.num_rows, tuple(each.null_count for each in table.columns))
        assert table.schema.equals(expected.schema, check_metadata=True)
        columns, found = read_parquet(own, tmp_path)
        assert (columns[0], len(found)) == ("MEMBER_ID VARCHAR", table.num_rows)
        tables.append(table)
    assert pyarrow.concat_tables(tables).combine_chunks().equals(expected.combine_chunks())
    assert read_parquet(content, tmp_path)[1][-1][0] == expected["MEMBER_ID"][-1].as_py()
