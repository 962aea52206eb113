"""Sorting in passes: every row in one of them, in the same order, and the same files in the end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource, passes
from daybreak.export.resource_export import shaped_relation
from daybreak.export.survey import LeaderRows
from tests.parts.export_rows import MemorySink, made_up_reading

CUSTOM = "custom_member_data"
LEADERS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(6)]


def member(number: int) -> str:
    return f"{number % 997:08x}-1111-4111-8111-{number:012x}"


def rows() -> list[tuple[str, str, str, str | None]]:
    """Leader 1 has wide rows, leader 4 wide ones and most of them, leader 2 the same member over and over."""
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


def export(folder: Path) -> dict[tuple[str, str, str], bytes]:
    sink = MemorySink()
    entries: list[ManifestEntry] = []
    with made_up_reading(folder, {CUSTOM: rows()}, LEADERS) as reading:
        export_resource(reading, CUSTOM, ("csv", "json"), sink, on_entries=entries.extend)
    assert sorted(entry.client_id for entry in entries) == ["", *LEADERS]
    return sink.files


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fills with the passes as they are taken."""
    taken: list[str] = []
    each = passes.passes

    def watched(*given: Any) -> Iterator[str]:
        for one in each(*given):
            taken.append(one)
            yield one

    monkeypatch.setattr("daybreak.export.line_stream.passes", watched)
    return taken


@pytest.mark.parametrize(("wide_bytes", "fits"), [(1_500, 100_000), (0, 5_000), (0, 1)])
def test_passes_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide_bytes: int, fits: int) -> None:
    whole = export(tmp_path / "whole")
    monkeypatch.setattr(passes, "WIDE_ROW_BYTES", wide_bytes)
    monkeypatch.setattr(passes, "engine_memory_bytes", lambda _: fits * passes.HUGE_SHARE)
    taken = watch(monkeypatch)
    assert export(tmp_path / "parts") == whole
    assert len(taken) > 5


@pytest.mark.parametrize(("order", "expected"), [("2, 1", 6), ("1", 1)])
def test_rows_that_lie_leader_by_leader_are_put_in_order_some_leaders_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, expected: int
) -> None:
    """Where a pass would read everything again, all are sorted at once. 90,000 rows of 300 bytes, 10 MB of memory."""
    parquet = tmp_path / "rows.parquet"
    with made_up_reading(tmp_path, {}, LEADERS) as reading, reading.cursor() as cursor:
        cursor.execute(
            'COPY (SELECT gen_random_uuid() AS "MEMBER_ID", CAST($1[1 + number % 6] AS UUID) AS "LEADER_ID", '
            '\'field\' AS "CUSTOM_FIELD_NAME", CAST(number AS VARCHAR) AS "CUSTOM_FIELD_VALUE" '
            f"FROM range(90_000) AS numbers (number) ORDER BY {order}) TO '{parquet}' (ROW_GROUP_SIZE 2048)",
            [LEADERS],
        )
        cursor.execute(f"CREATE VIEW made_up_{CUSTOM} AS SELECT * FROM '{parquet}'")
        whole, parts = MemorySink(), MemorySink()
        export_resource(reading, CUSTOM, ("csv",), whole, on_entries=lambda _: None)
        monkeypatch.setattr(passes, "engine_memory_bytes", lambda _: 10_000_000)
        taken = watch(monkeypatch)
        export_resource(reading, CUSTOM, ("csv",), parts, on_entries=lambda _: None)
    assert parts.files == whole.files
    assert len(taken) == expected


def test_wide_rows_come_last() -> None:
    narrow, wide = LeaderRows("a", 10, "", 1_000), LeaderRows("b", 10, "", 20_000)
    assert passes.wide_last([wide, narrow]) == [narrow, wide]


def test_a_pass_takes_fewer_of_rows_that_leave_the_engine_in_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 MB of memory and 64 rows: 25 MB of rows that are just wide are sorted at once, 6 MB of huge ones."""
    memory_bytes, text_bytes = 100_000_000, 100_000
    found = [(member(number), LEADERS[0], "note", str(number % 10) * text_bytes) for number in range(64)]
    monkeypatch.setattr(passes, "engine_memory_bytes", lambda _: memory_bytes)
    leader = LeaderRows(LEADERS[0], len(found), "", len(found) * text_bytes)
    parts = {}
    with made_up_reading(tmp_path, {CUSTOM: found}, LEADERS) as reading, reading.cursor() as cursor:
        custom = resource_named(CUSTOM)
        relation = shaped_relation(cursor, reading, custom)
        for block_rows in (1, 2048):
            monkeypatch.setattr(passes, "_BLOCK_ROWS", block_rows)
            parts[block_rows] = len(list(passes.passes(cursor, relation, custom, [leader])))
    assert parts == {1: 1, 2048: 2}
