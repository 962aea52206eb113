"""Lines in file order: batch sizes, and the choice between the compiled encoder and SQL."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daybreak.catalogue.resources import resource_named
from daybreak.export import duckdb_internals
from daybreak.export.line_batch import LineBatch
from daybreak.export.line_encoder import runtime
from daybreak.export.line_encoder.encoder import EncoderPool, PackedRows
from daybreak.export.ordered_lines import line_batches, rows_per_batch
from daybreak.export.resource_export import export_resource
from daybreak.export.results import ExportResults
from daybreak.export.sort_passes import wide_leaders_last
from daybreak.export.survey import Survey, survey_rows
from daybreak.export.work_tables import WorkTables, open_work_tables
from tests.parts.export_rows import MemorySink, SampleRows, export_job, sample_rows

CUSTOM = "custom_member_data"
LEADERS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(3)]


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[SampleRows]:
    """Return rows in the reverse order of the files."""
    values = [
        (f"{number:08x}-1111-4111-8111-111111111111", LEADERS[number % 3], f"field {number}", 'a "b" \\ c')
        for number in reversed(range(600))
    ]
    with sample_rows(tmp_path, {CUSTOM: values}, LEADERS) as opened:
        yield opened


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the number of rows in each call of the compiled encoder."""
    calls: list[int] = []
    encode = EncoderPool.encode

    def counting(pool: EncoderPool, packed: PackedRows) -> list[LineBatch]:
        calls.append(len(packed.ordinals))
        return encode(pool, packed)

    monkeypatch.setattr(EncoderPool, "encode", counting)
    return calls


def files_of(rows: SampleRows) -> dict[tuple[str, str, str], bytes]:
    sink = MemorySink()
    export_resource(rows, export_job(CUSTOM), sink, ExportResults())
    return sink.files


def test_lines_are_ordered_by_leader_and_key(rows: SampleRows) -> None:
    with open_work_tables(rows, resource_named(CUSTOM)) as tables:
        ordinals, content = all_lines(tables, survey_rows(tables, LEADERS, ""))
    assert ordinals == [ordinal for ordinal in range(3) for _ in range(200)]
    numbers = [int(line.split(b"field ")[1].split(b'"')[0]) for line in content.splitlines()]
    assert numbers == [number for leader in range(3) for number in range(leader, 600, 3)]


def all_lines(tables: WorkTables, survey: Survey) -> tuple[list[int], bytes]:
    """Return the ordinals and the CSV lines of all Leaders."""
    ordinals: list[int] = []
    content = b""
    for batch in line_batches(tables, survey, wide_leaders_last(survey.leaders), ("csv",), threads=2):
        ordinals += batch.ordinals.tolist()
        offsets, lines = batch.lines["csv"]
        content += bytes(lines[offsets[0] : offsets[-1]])
    return ordinals, content


def test_unexpected_sort_key_layout_falls_back_to_sql(
    rows: SampleRows, encoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = files_of(rows)
    assert sum(encoded) == 600
    encoded.clear()
    # A later version of DuckDB may pack rows differently. Another order of NULLs simulates such a change.
    monkeypatch.setattr(duckdb_internals, "_SORT_KEY_ORDER", "'ASC NULLS LAST'")
    with capture_logs() as log:
        found = files_of(rows)
    assert encoded == []
    assert found == expected
    [warning] = log
    assert (warning["event"], warning["log_level"]) == ("export.encoder_unusable", "warning")
    assert "create_sort_key returned" in warning["reason"]


def test_sql_encodes_the_lines_without_the_library(
    rows: SampleRows, encoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = files_of(rows)
    encoded.clear()
    monkeypatch.setattr(runtime, "unavailable_reason", lambda: "switched off by the test")
    assert files_of(rows) == expected
    assert encoded == []
    assert b'"a ""b"" \\ c"' in gzip.decompress(expected[LEADERS[0], CUSTOM, "csv"])


def batch_rows(widest_row_bytes: int) -> int:
    return rows_per_batch(resource_named(CUSTOM), Survey((), 0, {}, {}, 0, widest_row_bytes))


def test_batches_are_smaller_for_wide_rows() -> None:
    assert 2_048 < batch_rows(1_000) < batch_rows(100) < batch_rows(0) <= 131_072
    # CSV and JSON lines of one batch take about 6 MB.
    assert 5_000_000 < batch_rows(1_000) * 2 * 1_000 < 6_500_000
    assert batch_rows(10_000_000) == 2_048
