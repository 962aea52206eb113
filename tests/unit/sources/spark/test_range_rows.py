"""Ranges of split Leaders as Spark rows: the joined files are the same as without the split."""

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
from daybreak.export import leader_files
from daybreak.export.job import ExportResults, ResourceReport
from daybreak.export.key_ranges import join_ranges, range_chunks
from daybreak.export.resource_export import export_resource
from daybreak.export.text_formats import text_format
from daybreak.sources.spark.placement import assign_partitions
from daybreak.sources.spark.task import SparkTask, lines_row, split_leaders, totals_row
from tests.parts.export_rows import MemorySink, export_job, naughty_strings, sample_rows

CUSTOM = "custom_member_data"
LEADERS = ["d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7", "0a0cd8fe-ecce-4b28-b5b4-cded8d7e46f7"]
FORMATS = ("csv", "json", "ndjson")
Row = tuple[str, str, str | None, str | None]


def shuffled_rows(count: int) -> list[Row]:
    """Return rows of two Leaders. Some fields have no name or a hostile one, and some Members repeat a field."""
    random = Random(5)
    texts = [None, *naughty_strings()]
    rows = [
        (f"{random.getrandbits(32):08x}-0000-4000-8000-{number:012x}", random.choice(LEADERS), random.choice(texts),
         random.choice(texts))
        for number in range(count)
    ]  # fmt: skip
    return [*rows, *((member, leader, name, "again") for member, leader, name, _ in rows[:20])]


def key_of(row: Row) -> tuple[str, bytes]:
    return row[0], row[2].encode() if row[2] is not None else b""


def by_client_id(entry: ManifestEntry) -> str:
    return entry.client_id


def export_unsplit(folder: Path, rows: Sequence[Row]) -> tuple[MemorySink, list[ManifestEntry]]:
    sink, results = MemorySink(), ExportResults()
    with sample_rows(folder, {CUSTOM: rows}, LEADERS) as sample:
        export_resource(sample, export_job(CUSTOM, FORMATS), sink, results)
    return sink, sorted((entry for entry in results.entries if entry.client_id), key=by_client_id)


def range_rows(folder: Path, parts: Sequence[Sequence[Row]]) -> list[pa.RecordBatch]:
    """Encode each part as a range. Return the rows of all tasks in RANGE_ORDER."""
    resource = resource_named(CUSTOM)
    kinds = {text_format(resource, name).line_kind for name in FORMATS}
    sent = []
    for number, part in enumerate(parts):
        with sample_rows(folder, {CUSTOM: part}, LEADERS) as sample:
            for leader_range, chunks in range_chunks(sample, resource, threads=1):
                place = sorted(LEADERS).index(leader_range.totals.client_id)
                sent.append((place, 0, number, 0, totals_row(place, number, leader_range)))
                for position, chunk in enumerate(chunks):
                    sent.append((place, 1, number, position, lines_row(place, number, position, chunk, kinds)))
    return [batch for *_, batch in sorted(sent, key=lambda one: one[:4])]


def join(
    batches: Sequence[pa.RecordBatch], previous: Mapping[str, str]
) -> tuple[MemorySink, ExportResults, list[ResourceReport]]:
    sink, results = MemorySink(), ExportResults()
    job = export_job(CUSTOM, FORMATS, previous=previous)
    # Spark provides a few large batches.
    combined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    reports = [join_ranges(job, ranges, chunks, sink, results) for ranges, chunks in split_leaders(combined)]
    return sink, results, reports


def split(rows: Sequence[Row], parts: int) -> Iterator[list[Row]]:
    """Split rows by Leader and key. Rows with the same key are in the same part, even if their Leaders differ."""
    ordered = sorted(rows, key=lambda row: (row[1], key_of(row)))
    size = -(-len(ordered) // parts)
    part: list[Row] = []
    for row in ordered:
        if len(part) >= size and key_of(row) != key_of(part[-1]):
            yield part
            part = []
        part.append(row)
    yield part


@pytest.mark.parametrize("parts", [2, 5])
def test_joined_rows_equal_an_unsplit_export(tmp_path: Path, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_files, "PART_BYTES", 10_000)
    rows = shuffled_rows(600)
    unsplit_sink, expected = export_unsplit(tmp_path, rows)
    assert all(entry.formats["csv"].content_bytes > 20_000 for entry in expected)
    batches = range_rows(tmp_path, [*split(rows, parts)])
    sink, results, reports = join(batches, {})
    assert sorted(results.entries, key=by_client_id) == expected
    assert sink.files == {name: content for name, content in unsplit_sink.files.items() if name[0]}
    assert not results.reused
    assert sum(report.rows for report in reports) == len(rows)
    sink, results, reports = join(batches, {entry.client_id: entry.fingerprint for entry in expected})
    assert (sink.files, results.entries, results.reused) == ({}, [], sorted(LEADERS))
    assert [report.reused_leaders for report in reports] == [1, 1]


def test_overlapping_or_incomplete_ranges_are_errors(tmp_path: Path) -> None:
    first, second = split(shuffled_rows(300), 2)
    mixed = range_rows(tmp_path, [[*first[:-1], second[-1]], [*second[:-1], first[-1]]])
    with pytest.raises(SourceError, match="overlap"):
        join(mixed, {})
    batches = range_rows(tmp_path, [first, second])
    last_totals = [batch for batch in batches if batch.column("kind")[0].as_py() == 0][-1]
    without_lines = [batch for batch in batches if batch is not batches[-1] or batch is last_totals]
    with pytest.raises(RunError, match="rows in custom_member_data, but"):
        join(without_lines, {})


def test_executor_with_another_version_is_rejected() -> None:
    known: Any = None
    task = SparkTask(export_job(CUSTOM, FORMATS), MemorySink(), 100_000_000, known)
    with pytest.raises(RunError, match="an executor has"):
        replace(task, version="0.0.1").write_header_only()


def test_large_leaders_have_a_dedicated_partition() -> None:
    partitions, count = assign_partitions({"a": 10, "b": 700, "c": 40, "d": 60, "e": 100}, 100)
    assert count == 4
    assert [partitions[leader] for leader in "bedca"] == [0, 1, 2, 2, 3]


def test_no_leaders_make_one_partition() -> None:
    assert assign_partitions({}, 100) == ({}, 1)
