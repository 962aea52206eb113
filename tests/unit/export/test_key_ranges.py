"""Ranges of a Leader's rows, encoded separately and joined: same bytes, digests and figures as without the split."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import RunError, SourceError
from daybreak.export import leader_files
from daybreak.export.job import ExportResults, ResourceReport
from daybreak.export.key_ranges import LeaderRange, join_ranges, range_chunks
from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.resource_export import export_resource
from tests.parts.export_rows import MemorySink, export_job, naughty_strings, sample_rows

CUSTOM = "custom_member_data"
LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"
FORMATS = ("csv", "json", "ndjson")
Row = tuple[str, str, str | None, str | None]


def _copied(chunk: LeaderChunk) -> LeaderChunk:
    """Return a chunk that stays valid when the next one is read."""
    return replace(chunk, lines={kind: memoryview(bytes(lines)) for kind, lines in chunk.lines.items()})


def shuffled_rows(count: int) -> list[Row]:
    random = Random(5)
    texts = [None, *naughty_strings()]
    return [
        (f"{random.getrandbits(32):08x}-0000-4000-8000-{number:012x}", LEADER, random.choice(texts), "value")
        for number in range(count)
    ]


def export_unsplit(folder: Path, rows: Sequence[Row]) -> tuple[MemorySink, ExportResults, ResourceReport]:
    sink, results = MemorySink(), ExportResults()
    with sample_rows(folder, {CUSTOM: rows}, [LEADER]) as sample:
        report = export_resource(sample, export_job(CUSTOM, FORMATS), sink, results)
    return sink, results, report


def encoded_range(folder: Path, rows: Sequence[Row]) -> tuple[LeaderRange, list[LeaderChunk]]:
    """Encode the rows of one range."""
    resource = resource_named(CUSTOM)
    with sample_rows(folder, {CUSTOM: rows}, [LEADER]) as sample:
        [(leader_range, chunks)] = [
            (one, [_copied(chunk) for chunk in chunks]) for one, chunks in range_chunks(sample, resource, threads=1)
        ]
    return leader_range, chunks


def join(
    ranges: Sequence[tuple[LeaderRange, list[LeaderChunk]]], previous: dict[str, str] | None = None
) -> tuple[MemorySink, ExportResults, ResourceReport]:
    sink, results = MemorySink(), ExportResults()
    job = export_job(CUSTOM, FORMATS, previous=previous)
    report = join_ranges(job, [one for one, _ in ranges], [c for _, own in ranges for c in own], sink, results)
    return sink, results, report


def split(rows: Sequence[Row], parts: int) -> list[list[Row]]:
    """Split rows by key into ranges of about the same size."""
    ordered = sorted(rows, key=lambda row: row[0])
    size = -(-len(ordered) // parts)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_joined_ranges_equal_an_unsplit_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    monkeypatch.setattr(leader_files, "PART_BYTES", 10_000)
    rows = shuffled_rows(400)
    sink, results, report = export_unsplit(tmp_path, rows)
    ranges = [encoded_range(tmp_path, part) for part in split(rows, parts)]
    joined_sink, joined_results, joined_report = join(ranges)
    assert joined_sink.files == {key: stored for key, stored in sink.files.items() if key[0]}
    assert joined_results.entries == [entry for entry in results.entries if entry.client_id]
    assert joined_report.rows == report.rows
    assert joined_report.counts.nulls == report.counts.nulls


def test_unchanged_leader_is_reused(tmp_path: Path) -> None:
    rows = shuffled_rows(100)
    _, results, _ = export_unsplit(tmp_path, rows)
    previous = {entry.client_id: entry.fingerprint for entry in results.entries}
    ranges = [encoded_range(tmp_path, part) for part in split(rows, 3)]
    sink, joined, report = join(ranges, previous)
    assert (sink.files, joined.entries, joined.reused) == ({}, [], [LEADER])
    assert report.reused_leaders == 1


def test_overlapping_ranges_are_rejected(tmp_path: Path) -> None:
    first, second = split(shuffled_rows(100), 2)
    ranges = [
        encoded_range(tmp_path, [*first[:-1], second[-1]]),
        encoded_range(tmp_path, [*second[:-1], first[-1]]),
    ]
    with pytest.raises(SourceError, match="overlap"):
        join(ranges)


def test_missing_lines_are_an_error(tmp_path: Path) -> None:
    first, second = (encoded_range(tmp_path, part) for part in split(shuffled_rows(100), 2))
    with pytest.raises(RunError, match=f"has 100 rows in {CUSTOM}, but 50 were received"):
        join([first, (second[0], [])])
