"""Changes in Parquet, compared with the full Parquet files of the same rows."""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet
import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.domain.snapshot import StoredFormat
from daybreak.export.delta import change_files
from daybreak.export.delta.change_files import write_changes
from daybreak.export.delta.csv_rows import csv_rows, split_cells
from daybreak.export.delta.delta_lines import DeltaLines, delta_header
from daybreak.export.delta.merge import DeltaFault
from daybreak.export.job import ExportResults
from daybreak.export.parquet_writer import ParquetWriter
from daybreak.export.resource_export import export_resource
from tests.parts.export_rows import MemorySink, export_job, naughty_strings, sample_rows

LEADER = "0000000a-0000-4000-8000-000000000000"
TIMES = [
    "2026-11-20 04:00:00.123456", "1969-12-31 23:59:59.999999", "0001-01-01", "9999-12-31", "2000-02-29 12:00:00.5",
    None,
]  # fmt: skip


def member(number: int) -> str:
    return f"{number:08x}-1111-4111-8111-111111111111"


def exported(folder: Path, resource: str, rows: Sequence[Sequence[object]]) -> tuple[pa.Table, list[bytes]]:
    """Return the full Parquet file of one Leader, and the lines of its CSV file without the header."""
    sink = MemorySink()
    with sample_rows(folder, {resource: rows}, [LEADER]) as sample:
        export_resource(sample, export_job(resource, ("csv", "parquet")), sink, ExportResults())
    table = pyarrow.parquet.read_table(io.BytesIO(sink.files[LEADER, resource, "parquet"]))
    content = gzip.decompress(sink.files[LEADER, resource, "csv"])
    return table, list(csv_rows(iter([content])))[1:]


def changes(resource: str, lines: Sequence[bytes]) -> tuple[pa.Table, StoredFormat, bytes]:
    """Return the changes of lines of a delta."""
    sink, content = MemorySink(), delta_header(resource_named(resource)) + b"".join(lines)
    size = (len(lines), len(content))
    pieces = iter([content[start : start + 1000] for start in range(0, len(content), 1000)])
    stored = write_changes(ParquetWriter(sink, resource, None), resource_named(resource), LEADER, pieces, size)
    file = sink.files[LEADER, resource, "delta_parquet"]
    return pyarrow.parquet.read_table(io.BytesIO(file)), stored, file


def test_inserted_rows_are_those_of_the_full_file(tmp_path: Path) -> None:
    texts = naughty_strings()
    rows = [
        (member(number), LEADER, f"field {number % 7}", text) for number, text in enumerate([*texts, None, "", *texts])
    ]
    full, lines = exported(tmp_path, "custom_member_data", rows)
    found, stored, file = changes("custom_member_data", [b'"I",' + line for line in lines])
    assert found.column_names == [*full.column_names, "_change_type"]
    assert found.select(full.column_names).equals(full)
    assert set(found["_change_type"].to_pylist()) == {"insert"}
    assert (stored.bytes, found.num_rows) == (len(file), len(rows))


@pytest.mark.parametrize("rows_at_once", [3, 20_000])
def test_unusual_times_are_those_of_the_full_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(change_files, "_MAX_ROWS_AT_ONCE", rows_at_once)
    times = [(member(number), LEADER, "live", time) for number, time in enumerate(TIMES)]
    resource = resource_named("members")
    births = [
        tuple({"MEMBER_ID": member(number), "LEADER_ID": LEADER, "DATE_OF_BIRTH": time and time[:10]}.get(name)
              for name in resource.column_names)
        for number, time in enumerate(TIMES)
    ]  # fmt: skip
    cases = (("member_state_changes", "STATE_CHANGED_AT", times), ("members", "DATE_OF_BIRTH", births))
    for name, column, rows in cases:
        full, lines = exported(tmp_path, name, cast("list[tuple[object, ...]]", rows))
        found, _, _ = changes(name, [b'"I",' + line for line in lines])
        assert found.schema.field(column).type == full.schema.field(column).type
        number = pa.int64() if column == "STATE_CHANGED_AT" else pa.int32()
        assert found[column].cast(number).equals(full[column].cast(number)), name


def test_deleted_rows_have_only_keys(tmp_path: Path) -> None:
    name = "member_communities"
    resource = resource_named(name)
    rows = [(member(7), "Runners", LEADER, member(number), "2026-01-01") for number in range(5)]
    full, lines = exported(tmp_path, name, rows)
    deleted = [DeltaLines(resource).delete(split_cells(line[:-1]))[0] for line in lines]
    found, _, _ = changes(name, deleted)
    assert set(found["_change_type"].to_pylist()) == {"delete"}
    for column in resource.column_names:
        values = found[column]
        assert values.equals(full[column]) if column in resource.key else values.null_count == len(rows)


def test_missing_rows_are_a_fault() -> None:
    resource, writer = resource_named("members"), ParquetWriter(MemorySink(), "members", None)
    with pytest.raises(DeltaFault):
        write_changes(writer, resource, LEADER, iter([delta_header(resource)]), (1, 10))
