"""Export of one resource: readers find every cell, and the same rows produce the same bytes."""

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from threading import RLock, local
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import gzip_member, leader_files, leader_rows, resource_export, row_partition
from daybreak.export.job import ExportResults, ResourceReport
from daybreak.export.leader_rows import sql_lines
from daybreak.export.line_encoder import runtime
from daybreak.export.line_encoder.partitioner import Divided, PackedRows, Partitioner
from daybreak.export.resource_export import export_resource
from daybreak.filestore.file_store import WrittenFile
from tests.parts.export_rows import MemorySink, export_job, naughty_strings, sample_rows

LEADERS = [f"{number:08x}-0000-4000-8000-000000000000" for number in (0x0A, 0x7F, 0x80, 0xFF)]
CUSTOM = "custom_member_data"
Files = dict[tuple[str, str, str], bytes]


def member(number: int) -> str:
    return f"{number:08x}-1111-4111-8111-111111111111"


def export(
    folder: Path,
    rows: Sequence[Sequence[object]],
    *,
    resource: str = CUSTOM,
    formats: Sequence[str] = ("csv", "json"),
    engine_threads: int = 2,
    **options: Any,
) -> tuple[Files, ResourceReport, ExportResults]:
    sink, results = MemorySink(), ExportResults()
    with sample_rows(folder, {resource: rows}, LEADERS, threads=engine_threads) as sample:
        report = export_resource(sample, export_job(resource, formats, **options), sink, results)
    return sink.files, report, results


def read_csv(stored: bytes) -> list[list[str | None]]:
    """Return the cells, None for NULL. Unlike most readers, this one distinguishes NULL from the empty string."""
    text = gzip.decompress(stored).decode()
    records: list[list[str | None]] = [[]]
    position = 0
    while position < len(text):
        if text[position] == '"':
            cell = ""
            position += 1
            while True:
                end = text.index('"', position)
                cell += text[position:end]
                position = end + 1
                if text[position : position + 1] != '"':
                    break
                cell += '"'
                position += 1
            records[-1].append(cell)
        else:
            end = min(text.index(c, position) for c in ",\n" if c in text[position:])
            records[-1].append(text[position:end] or None)
            position = end
        if text[position] == "\n":
            records.append([])
        else:
            assert text[position] == ","
            if text[position + 1] == "\n":
                records[-1].append(None)
                position += 1
                records.append([])
        position += 1
    assert records.pop() == []
    return records


texts = st.one_of(
    st.none(),
    st.sampled_from(naughty_strings()),
    st.text(st.characters(codec="utf-8"), max_size=20),
)


@settings(max_examples=10)
@given(
    values=st.lists(st.tuples(st.sampled_from(LEADERS), texts, texts), max_size=30),
    formats=st.sampled_from([("csv", "json"), ("csv",), ("json",), ("ndjson", "csv", "json")]),
)
def test_readers_find_every_cell(
    tmp_path: Path, values: list[tuple[str, str | None, str | None]], formats: tuple[str, ...]
) -> None:
    rows = [(member(number), leader, name, value) for number, (leader, name, value) in enumerate(values)]
    files, report, results = export(tmp_path, rows, formats=formats)
    assert report.rows == len(rows)
    names = list(resource_named(CUSTOM).column_names)
    for entry in results.entries:
        own = [list(row) for row in rows if row[1] == entry.client_id]
        assert entry.rows == len(own)
        for format in formats:
            stored = files[entry.client_id, CUSTOM, format]
            content = gzip.decompress(stored)
            assert entry.formats[format].content_sha256 == hashlib.sha256(content).hexdigest()
            assert entry.formats[format].content_bytes == len(content)
            assert entry.formats[format].sha256 == hashlib.sha256(stored).hexdigest()
            if format == "csv":
                assert read_csv(stored) == [names, *own]
                # Python's reader returns an empty string for NULL.
                without_nulls = list(csv.reader(io.StringIO(content.decode(), newline="")))
                assert without_nulls == [names, *([cell or "" for cell in row] for row in own)]
            elif format == "json":
                assert [list(record.values()) for record in json.loads(content)] == own
                assert content.count(b"\n") == max(len(own) - 1, 0)
            else:
                lines = content.decode().split("\n")
                assert lines.pop() == ""
                assert [list(json.loads(line).values()) for line in lines] == own
    assert {entry.client_id for entry in results.entries} == {"", *(row[1] for row in rows)}


def test_all_types_and_nulls_are_encoded(tmp_path: Path) -> None:
    full = (
        member(1), LEADERS[0], LEADERS[1], "sms", datetime(2026, 2, 28, 23, 59, 59, 999999), True,
        'He said "hi",\nthen left', "mms", "https://example.org/a,b", False, True,
        9223372036854775807, 0, -1, 4, 5, 6, "",
    )  # fmt: skip
    bare = (member(2), LEADERS[0], *([None] * 16))
    files, report, _ = export(tmp_path, [full, bare], resource="campaigns")
    content = gzip.decompress(files[LEADERS[0], "campaigns", "csv"]).decode()
    lines = content.split("\n", 1)[1]
    assert lines == (
        f'"{member(1)}","{LEADERS[0]}","{LEADERS[1]}","sms",2026-02-28T23:59:59.999999Z,true,'
        '"He said ""hi"",\nthen left","mms","https://example.org/a,b",false,true,'
        '9223372036854775807,0,-1,4,5,6,""\n'
        f'"{member(2)}","{LEADERS[0]}",' + "," * 15 + "\n"
    )
    records = json.loads(gzip.decompress(files[LEADERS[0], "campaigns", "json"]))
    assert list(records[1].values()) == list(bare)
    assert records[0]["SENT_AT"] == "2026-02-28T23:59:59.999999Z"
    assert records[0]["TEST_CAMPAIGN"] is True
    assert records[0]["RECIPIENT_COUNT"] == 9223372036854775807
    assert report.counts.nulls["CHANNEL"] == 1
    assert report.counts.nulls["CAMPAIGN_ID"] == 0


def test_rows_are_ordered_by_bytes(tmp_path: Path) -> None:
    names = ["b", "a", "Z", "é", "z", "", "\U0001f600", "\uffee", "a\x00"]
    rows: list[tuple[str, str, str, str | None]] = [(member(1), LEADERS[0], name, None) for name in names]
    rows += [("ffffffff-0000-4000-8000-000000000000", LEADERS[0], "x", None)]
    rows += [("00000000-0000-4000-8000-000000000000", LEADERS[0], "x", "1")]
    rows += [("00000000-0000-4000-8000-000000000000", LEADERS[0], "x", "0")]
    files, _, _ = export(tmp_path, rows)
    records = json.loads(gzip.decompress(files[LEADERS[0], CUSTOM, "json"]))
    found = [(r["MEMBER_ID"], r["CUSTOM_FIELD_NAME"].encode(), r["CUSTOM_FIELD_VALUE"]) for r in records]
    assert found == sorted(((r[0], r[2].encode(), r[3]) for r in rows), key=lambda r: (r[0], r[1], r[2] or ""))


def test_header_only_file_is_shared(tmp_path: Path) -> None:
    files, report, results = export(tmp_path, [], formats=("csv", "json", "ndjson"))
    assert [entry.client_id for entry in results.entries] == [""]
    header = b'"MEMBER_ID","LEADER_ID","CUSTOM_FIELD_NAME","CUSTOM_FIELD_VALUE"\n'
    assert gzip.decompress(files["", CUSTOM, "csv"]) == header
    assert gzip.decompress(files["", CUSTOM, "json"]) == b"[]"
    assert gzip.decompress(files["", CUSTOM, "ndjson"]) == b""
    assert (report.rows, report.leaders) == (0, 0)


def test_rows_of_unknown_leaders_are_only_counted(tmp_path: Path) -> None:
    rows = [
        (member(1), LEADERS[0], "live", datetime(2026, 1, 1)),
        (member(2), "12345678-0000-4000-8000-000000000000", "live", datetime(2026, 1, 1)),
        (member(3), None, "live", datetime(2026, 1, 1)),
        (member(4), LEADERS[1], "asleep", datetime(2026, 1, 1)),
    ]
    files, report, results = export(tmp_path, rows, resource="member_state_changes")
    assert report.counts.unknown == 2
    assert report.counts.unexpected == {"SUBSCRIPTION_STATE": 1}
    assert [entry.client_id for entry in results.entries] == ["", LEADERS[0], LEADERS[1]]
    assert b"asleep" in gzip.decompress(files[LEADERS[1], "member_state_changes", "csv"])


def many_rows(count: int, skew: int) -> list[tuple[object, ...]]:
    """Return rows of Leaders of different sizes. The first Leader has the most rows."""
    return [
        (
            member(number * 7919 % 1_000_003),
            LEADERS[0 if number % skew else number % 4],
            f"field {number % 5}",
            "x" * (number % 97) + '"',
        )
        for number in range(count)
    ]


def differences(found: Files, expected: Files) -> dict[tuple[str, str, str], str]:
    """Return a short description of each difference. pytest would take a minute to compare the bytes."""
    different = {}
    for key in found.keys() | expected.keys():
        one, other = found.get(key, b""), expected.get(key, b"")
        if one != other:
            same = bool(one and other) and gzip.decompress(one) == gzip.decompress(other)
            different[key] = f"{len(one)} and {len(other)} bytes, content {'the same' if same else 'differs'}"
    return different


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Files:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leader_files, "PART_BYTES", 20_000)
        files, _, _ = export(tmp_path_factory.mktemp("spill"), many_rows(6000, 9))
    return files


@pytest.mark.parametrize(("threads", "engine_threads"), [(1, 1), (4, 3)])
@pytest.mark.parametrize("batch_rows", [100, 100_000])
def test_same_rows_produce_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: Files, threads: int, engine_threads: int, batch_rows: int
) -> None:
    monkeypatch.setattr(leader_files, "PART_BYTES", 20_000)
    monkeypatch.setattr(row_partition, "BATCH_ROWS", batch_rows)
    rows = many_rows(6000, 9)
    rows.reverse()
    files, _, _ = export(tmp_path, rows, threads=threads, engine_threads=engine_threads)
    assert differences(files, baseline) == {}


def test_large_file_is_one_member_of_parts(tmp_path: Path, baseline: Files) -> None:
    plain, _, _ = export(tmp_path, many_rows(6000, 9))
    for key, stored in baseline.items():
        reader = zlib.decompressobj(31)
        content = reader.decompress(stored)
        assert reader.eof
        assert not reader.unused_data
        # The content is the same with and without division into parts.
        assert content == gzip.decompress(plain[key])
    largest = baseline[LEADERS[0], CUSTOM, "csv"]
    assert largest.count(b"\x00\x00\xff\xff") >= 10, "the file has too few parts for this test"


def fingerprints(entries: Iterable[ManifestEntry]) -> dict[str, str]:
    return {entry.client_id: entry.fingerprint for entry in entries if entry.client_id}


@pytest.mark.parametrize("encoder", ["compiled", "sql"])
def test_second_day_of_many_and_large_rows(encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four Leaders change. Their rows fill several batches, and some are too large to be packed with others."""
    if encoder == "sql":
        monkeypatch.setattr(runtime, "unavailable_reason", lambda: "switched off by the test")
    formats, large = ("csv", "json", "parquet"), "x" * (2 * row_partition._LARGE_TEXT_BYTES)
    count = 5 * row_partition.BATCH_ROWS
    rows = [
        (member(number), LEADERS[number % 4], "name", large if number % 997 == 0 else str(number))
        for number in range(count)
    ]
    _, _, results = export(tmp_path, rows, formats=formats)
    changed = [*rows[1:], (member(count), LEADERS[1], "name", f"{large}y")]
    files, report, results = export(tmp_path, changed, formats=formats, previous=fingerprints(results.entries))
    assert sorted(results.reused) == LEADERS[2:]
    assert report.rows == len(changed)
    full, _, _ = export(tmp_path, changed, formats=formats)
    assert {key for key in files if key[0]} == {key for key in full if key[0] in LEADERS[:2]}
    assert {key: full[key] for key in files} == files


def test_rows_of_unchanged_leaders_are_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[int] = []
    partition = Partitioner.partition

    def recording(self: Partitioner, batches: Sequence[PackedRows]) -> Divided:
        packed.extend(len(batch.offsets) - 1 for batch in batches)
        return partition(self, batches)

    monkeypatch.setattr(Partitioner, "partition", recording)
    rows = many_rows(400, 3)
    _, _, results = export(tmp_path, rows)
    assert sum(packed) == 400
    before = fingerprints(results.entries)
    packed.clear()
    export(tmp_path, rows, previous=before)
    assert packed == []
    export(tmp_path, [(*row[:3], "new") if number == 3 else row for number, row in enumerate(rows)], previous=before)
    assert sum(packed) == sum(row[1] == rows[3][1] for row in rows) < 400


@pytest.mark.parametrize(
    "changed",
    [
        [("m1", "a", "b"), ("m2", "c", "d")],
        [("m0", "a", "b"), ("m1", "c", None)],
        [("m0", "ab", ""), ("m1", "c", "d")],
        [("m0", "", "ab"), ("m1", "c", "d")],
        [("m0", "a", "d"), ("m1", "c", "b")],
        [("m0", "a", "b"), ("m1", "c", "d"), ("m1", "c", "d")],
        [("m0", "a", "b")],
        [("m0", None, "b"), ("m1", "c", "d")],
        [("m0", "", "b"), ("m1", "c", "d")],
    ],
)
def test_any_change_changes_the_fingerprint(tmp_path: Path, changed: list[tuple[str, str | None, str | None]]) -> None:
    def rows(cells: list[tuple[str, str | None, str | None]]) -> list[tuple[object, ...]]:
        return [(member(int(m[1:])), LEADERS[0], a, b) for m, a, b in cells]

    _, _, first = export(tmp_path, rows([("m0", "a", "b"), ("m1", "c", "d")]))
    _, _, same = export(tmp_path, rows([("m1", "c", "d"), ("m0", "a", "b")]))
    _, _, other = export(tmp_path, rows(changed))
    assert fingerprints(first.entries) == fingerprints(same.entries)
    assert fingerprints(first.entries) != fingerprints(other.entries)


def test_fingerprint_covers_formats_and_compression(tmp_path: Path) -> None:
    rows = [(member(1), LEADERS[0], "a", "b")]
    found = {
        fingerprints(export(tmp_path, rows, formats=formats, compression=compression)[2].entries)[LEADERS[0]]
        for formats in (("csv",), ("csv", "json"))
        for compression in ("igzip-2", "zlib-ng-4")
    }
    assert len(found) == 4


class Turn:
    """A lock that records whether this thread holds it."""

    def __init__(self) -> None:
        self._lock, self._own = RLock(), local()

    @property
    def is_held(self) -> bool:
        return getattr(self._own, "holds", 0) > 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._own.holds = getattr(self._own, "holds", 0) + 1

    def __exit__(self, *error: object) -> None:
        self._own.holds -= 1
        self._lock.release()


@pytest.mark.parametrize("packs", [False, True])
def test_only_packed_files_are_written_in_turn(packs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creating a file takes long: other threads continue. Adding a file to a pack does not."""
    turn, in_turn = Turn(), []

    class Sink(MemorySink):
        def write(
            self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]
        ) -> WrittenFile:
            in_turn.append(turn.is_held)
            return super().write(client_id, resource, format, pieces)

    monkeypatch.setattr(resource_export, "RLock", lambda: turn)
    sink, results = Sink(), ExportResults()
    sink.packs = packs
    rows = [(member(number), leader, "name", "value") for number, leader in enumerate(LEADERS)]
    with sample_rows(tmp_path, {CUSTOM: rows}, LEADERS) as sample:
        export_resource(sample, export_job(CUSTOM), sink, results)
    assert len(sink.files) == 2 * (1 + len(LEADERS))
    # The files of the last Leader of a thread are closed after its turn.
    assert any(in_turn) == packs


def test_missing_lines_end_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of lines is compared with the number of rows that were read before."""
    monkeypatch.setattr(runtime, "unavailable_reason", lambda: "switched off by the test")
    monkeypatch.setattr(leader_rows, "sql_lines", lambda *arguments: list(sql_lines(*arguments))[:-1])
    with pytest.raises(RunError, match="rows"):
        export(tmp_path, many_rows(6000, 9))


def test_progress_never_decreases(tmp_path: Path) -> None:
    class Progress(ExportResults):
        seen: list[int] = []  # noqa: RUF012 - one instance

        def rows_done(self, rows: int) -> None:
            self.seen.append(rows)

    progress = Progress()
    with sample_rows(tmp_path, {CUSTOM: many_rows(100, 2)}, LEADERS) as rows:
        export_resource(rows, export_job(CUSTOM), MemorySink(), progress)
    assert progress.seen == sorted(progress.seen)
    assert progress.seen[-1] == 100


def test_observer_can_stop_the_export(tmp_path: Path) -> None:
    class Stopping(ExportResults):
        def rows_done(self, rows: int) -> None:
            if rows:
                raise RunError("stopped")

    with sample_rows(tmp_path, {CUSTOM: many_rows(100, 2)}, LEADERS) as rows, pytest.raises(RunError, match="stopped"):
        export_resource(rows, export_job(CUSTOM), MemorySink(), Stopping())


def test_part_size_matches_the_documentation() -> None:
    assert gzip_member.PART_BYTES == 1 << 20
