"""Sorting in passes: the files are the same as with one sort."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.export import sort_passes
from daybreak.export.resource_export import export_resource
from daybreak.export.results import ExportResults
from daybreak.export.survey import SurveyedLeader
from daybreak.export.work_tables import open_work_tables
from tests.parts.export_rows import MemorySink, SampleRows, export_job, sample_rows

CUSTOM = "custom_member_data"
LEADERS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(6)]
Files = dict[tuple[str, str, str], bytes]


def member(number: int) -> str:
    return f"{number % 997:08x}-1111-4111-8111-{number:012x}"


def uneven_rows() -> list[tuple[str, str, str, str | None]]:
    """Return rows: Leader 1 has some wide rows, Leader 4 only wide rows, and all rows of Leader 2 are of one Member."""
    found: list[tuple[str, str, str, str | None]] = []
    for number in range(1800):
        leader = number % 6
        if leader == 2:
            found.append((member(7), LEADERS[2], f"field {number}", "x" * 40))
        elif leader == 4:
            found.append((member(number), LEADERS[4], "note", "y" * 2_000))
        elif leader == 1 and number % 3 == 1:
            found.append((member(number), LEADERS[1], "note", '"' * 1_700))
        else:
            found.append((member(number), LEADERS[leader], "field", None))
    return found


def files_of(rows: SampleRows, *formats: str) -> Files:
    sink = MemorySink()
    export_resource(rows, export_job(CUSTOM, formats), sink, ExportResults())
    return sink.files


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the conditions of the passes, in order of creation."""
    conditions: list[str] = []
    create = sort_passes.sort_passes

    def recording(*arguments: Any) -> Iterator[str]:
        for condition in create(*arguments):
            conditions.append(condition)
            yield condition

    monkeypatch.setattr("daybreak.export.ordered_lines.sort_passes", recording)
    return conditions


@pytest.mark.parametrize(("wide_bytes", "pass_bytes"), [(1_500, 100_000), (0, 5_000), (0, 1)])
def test_passes_do_not_change_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: list[str], wide_bytes: int, pass_bytes: int
) -> None:
    with sample_rows(tmp_path, {CUSTOM: uneven_rows()}, LEADERS) as rows:
        whole = files_of(rows, "csv", "json")
        assert {leader for leader, _, _ in whole} == {"", *LEADERS}
        passes.clear()
        monkeypatch.setattr(sort_passes, "WIDE_ROW_BYTES", wide_bytes)
        monkeypatch.setattr(sort_passes, "memory_limit_bytes", lambda _: pass_bytes * sort_passes.HUGE_PASS_SHARE)
        assert files_of(rows, "csv", "json") == whole
    assert len(passes) > 5


@pytest.mark.parametrize(("order", "expected_passes"), [("2, 1", 6), ("1", 1)], ids=["clustered", "shuffled"])
def test_only_a_clustered_source_is_sorted_in_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: list[str], order: str, expected_passes: int
) -> None:
    """Export 90,000 rows of 300 bytes with 10 MB of memory. In a shuffled source every pass would read all rows."""
    parquet = tmp_path / "rows.parquet"
    with sample_rows(tmp_path, {}, LEADERS) as rows, rows.cursor() as cursor:
        cursor.execute(
            'COPY (SELECT gen_random_uuid() AS "MEMBER_ID", CAST($1[1 + number % 6] AS UUID) AS "LEADER_ID", '
            '\'field\' AS "CUSTOM_FIELD_NAME", CAST(number AS VARCHAR) AS "CUSTOM_FIELD_VALUE" '
            f"FROM range(90_000) AS numbers (number) ORDER BY {order}) TO '{parquet}' (ROW_GROUP_SIZE 2048)",
            [LEADERS],
        )
        cursor.execute(f"CREATE VIEW sample_{CUSTOM} AS SELECT * FROM '{parquet}'")
        whole = files_of(rows, "csv")
        passes.clear()
        monkeypatch.setattr(sort_passes, "memory_limit_bytes", lambda _: 10_000_000)
        assert files_of(rows, "csv") == whole
    assert len(passes) == expected_passes


def test_wide_leaders_come_last() -> None:
    narrow, wide = SurveyedLeader("a", 10, "", 1_000), SurveyedLeader("b", 10, "", 20_000)
    assert sort_passes.wide_leaders_last([wide, narrow]) == [narrow, wide]


@pytest.mark.parametrize(("vector_rows", "expected_passes"), [(1, 1), (2048, 2)])
def test_passes_are_smaller_for_rows_that_leave_in_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vector_rows: int, expected_passes: int
) -> None:
    """Sort 64 rows of 100 KB with 100 MB of memory: one pass of wide rows, or two if all leave in one batch."""
    text_bytes = 100_000
    wide = [(member(number), LEADERS[0], "note", str(number % 10) * text_bytes) for number in range(64)]
    leader = SurveyedLeader(LEADERS[0], len(wide), "", len(wide) * text_bytes)
    monkeypatch.setattr(sort_passes, "memory_limit_bytes", lambda _: 100_000_000)
    monkeypatch.setattr(sort_passes, "VECTOR_ROWS", vector_rows)
    with (
        sample_rows(tmp_path, {CUSTOM: wide}, LEADERS) as rows,
        open_work_tables(rows, resource_named(CUSTOM)) as tables,
    ):
        assert len(list(sort_passes.sort_passes(tables, [leader]))) == expected_passes
