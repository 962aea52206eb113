"""A Leader's rows cut into ranges, made into lines apart, joined: the bytes, digests and figures of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import RunError, SourceError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource, file_making
from daybreak.export.content import line_columns, text_format
from daybreak.export.ranges import join_ranges, range_lines
from daybreak.ports.sources import ResourceReport
from daybreak.sources.spark_ranges import figures_row, joined_leaders, lines_row
from daybreak.sources.spark_task import SparkTask
from tests.parts.export_rows import AS_OF, MemorySink, made_up_reading, naughty_strings

CUSTOM = "custom_member_data"
LEADERS = ["d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7", "0a0cd8fe-ecce-4b28-b5b4-cded8d7e46f7"]
FORMATS = ("csv", "json", "ndjson")
Row = tuple[str, str, str | None, str | None]


def made_up_rows(count: int) -> list[Row]:
    """Rows of two Leaders in no order; some fields have no name, some a hard one."""
    random = Random(5)
    texts = [None, *naughty_strings()]
    rows = [
        (f"{random.getrandbits(32):08x}-0000-4000-8000-{number:012x}", random.choice(LEADERS), random.choice(texts),
         random.choice(texts))
        for number in range(count)
    ]  # fmt: skip
    # The rows of one Member in one field that the source should not have twice.
    return [*rows, *((member, leader, name, "again") for member, leader, name, _ in rows[:20])]


def key_of(row: Row) -> tuple[str, bytes]:
    return row[0], row[2].encode() if row[2] is not None else b""


def made_whole(folder: Path, rows: Sequence[Row]) -> tuple[MemorySink, list[ManifestEntry]]:
    sink, entries = MemorySink(), list[ManifestEntry]()
    with made_up_reading(folder, {CUSTOM: rows}, LEADERS) as reading:
        export_resource(reading, CUSTOM, FORMATS, sink, on_entries=entries.extend)
    return sink, sorted((entry for entry in entries if entry.client_id), key=lambda entry: entry.client_id)


def ranges_of(folder: Path, parts: Sequence[Sequence[Row]]) -> list[pa.RecordBatch]:
    """What the tasks of these ranges send, in the order in which it is joined."""
    resource = resource_named(CUSTOM)
    columns = line_columns(text_format(resource, name) for name in FORMATS)
    sent = []
    for number, part in enumerate(parts):
        with made_up_reading(folder, {CUSTOM: part}, LEADERS) as reading:
            for figures, own in range_lines(reading, resource, columns, threads=1):
                place = sorted(LEADERS).index(figures.sums.client_id)
                sent.append((place, 0, number, 0, figures_row(place, number, figures)))
                for position, run in enumerate(own):
                    sent.append((place, 1, number, position, lines_row(place, number, position, run, columns)))
    return [batch for *_, batch in sorted(sent, key=lambda one: one[:4])]


def joined(
    batches: Sequence[pa.RecordBatch], previous: Mapping[str, str]
) -> tuple[MemorySink, list[ManifestEntry], list[str], list[ResourceReport]]:
    sink, entries, carried = MemorySink(), list[ManifestEntry](), list[str]()
    # As few batches as Spark would make of them.
    together = pa.Table.from_batches(batches).combine_chunks().to_batches()
    reports = [
        join_ranges(
            resource_named(CUSTOM), FORMATS, sink, figures, lines, previous=previous, threads=2,
            compression="igzip-2", on_entries=entries.extend, on_carried=carried.extend,
        )
        for figures, lines in joined_leaders(together)
    ]  # fmt: skip
    return sink, entries, carried, reports


def cut(rows: Sequence[Row], pieces: int) -> Iterator[list[Row]]:
    """By key; rows with the same key stay together. Leaders fall where they fall, as in Spark."""
    ordered = sorted(rows, key=lambda row: (row[1], key_of(row)))
    size = -(-len(ordered) // pieces)
    part: list[Row] = []
    for row in ordered:
        if len(part) >= size and key_of(row) != key_of(part[-1]):
            yield part
            part = []
        part.append(row)
    yield part


@pytest.mark.parametrize("pieces", [2, 5])
def test_ranges_make_the_files_of_the_whole(tmp_path: Path, pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_making, "PART_BYTES", 10_000)
    rows = made_up_rows(600)
    whole, expected = made_whole(tmp_path, rows)
    assert all(entry.formats["csv"].content_bytes > 20_000 for entry in expected)
    batches = ranges_of(tmp_path, [*cut(rows, pieces)])
    sink, entries, carried, reports = joined(batches, {})
    assert sorted(entries, key=lambda entry: entry.client_id) == expected
    assert sink.files == {name: content for name, content in whole.files.items() if name[0]}
    assert not carried
    assert sum(report.rows for report in reports) == len(rows)
    unchanged = {entry.client_id: entry.fingerprint for entry in expected}
    sink, entries, carried, reports = joined(batches, unchanged)
    assert (sink.files, entries, carried) == ({}, [], sorted(LEADERS))
    assert [report.carried for report in reports] == [1, 1]


def test_ranges_that_overlap_or_lack_lines_end_the_export(tmp_path: Path) -> None:
    first, second = list(cut(made_up_rows(300), 2))
    mixed = ranges_of(tmp_path, [[*first[:-1], second[-1]], [*second[:-1], first[-1]]])
    with pytest.raises(SourceError, match="overlap"):
        joined(mixed, {})
    batches = ranges_of(tmp_path, [first, second])
    last_of_figures = [batch for batch in batches if batch.column("kind")[0].as_py() == 0][-1]
    without_lines = [batch for batch in batches if batch is not batches[-1] or batch is last_of_figures]
    with pytest.raises(RunError, match="rows in custom_member_data, but"):
        joined(without_lines, {})


def test_an_executor_with_another_version_is_refused() -> None:
    task: Any = SparkTask(AS_OF, 100_000_000, 1).of(CUSTOM, FORMATS, "igzip-2", MemorySink(), None)
    with pytest.raises(RunError, match="an executor has"):
        replace(task, version="0.0.1").header_only()
