"""From rows to files: what readers find in them, and that the same rows give the same bytes."""

import csv
import gzip
import hashlib
import io
import json
import threading
import zlib
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import FileStoreError, RunError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource, file_making, gzip_member, line_stream
from daybreak.export.line_stream import record_batches
from daybreak.ports.files import WrittenFile
from daybreak.ports.sources import ResourceReport
from tests.parts.export_rows import MemorySink, made_up_reading, naughty_strings

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
    leaders: Sequence[str] = LEADERS,
    **options: Any,
) -> tuple[MemorySink, ResourceReport, list[ManifestEntry]]:
    sink = MemorySink()
    entries: list[ManifestEntry] = []
    with made_up_reading(folder, {resource: rows}, leaders, threads=engine_threads) as reading:
        report = export_resource(reading, resource, formats, sink, on_entries=entries.extend, **options)
    return sink, report, entries


def read_csv(stored: bytes) -> list[list[str | None]]:
    """The cells, None for NULL: unlike most readers this one tells it from the empty string."""
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


@settings(max_examples=25)
@given(
    values=st.lists(st.tuples(st.sampled_from(LEADERS), texts, texts), max_size=30),
    formats=st.sampled_from([("csv", "json"), ("csv",), ("json",), ("ndjson", "csv", "json")]),
)
def test_every_reader_gets_every_cell_back(
    tmp_path: Path, values: list[tuple[str, str | None, str | None]], formats: tuple[str, ...]
) -> None:
    rows = [(member(number), leader, name, value) for number, (leader, name, value) in enumerate(values)]
    sink, report, entries = export(tmp_path, rows, formats=formats)
    assert report.rows == len(rows)
    names = list(resource_named(CUSTOM).column_names)
    for entry in entries:
        own = [list(row) for row in rows if row[1] == entry.client_id]
        assert entry.rows == len(own)
        for format in formats:
            stored = sink.files[entry.client_id, CUSTOM, format]
            content = gzip.decompress(stored)
            assert entry.formats[format].content_sha256 == hashlib.sha256(content).hexdigest()
            assert entry.formats[format].content_bytes == len(content)
            assert entry.formats[format].sha256 == hashlib.sha256(stored).hexdigest()
            if format == "csv":
                assert read_csv(stored) == [names, *own]
                # The standard reader knows no NULL but agrees on everything else.
                loose = list(csv.reader(io.StringIO(content.decode(), newline="")))
                assert loose == [names, *([cell or "" for cell in row] for row in own)]
            elif format == "json":
                assert [list(record.values()) for record in json.loads(content)] == own
                assert content.count(b"\n") == max(len(own) - 1, 0)
            else:
                lines = content.decode().split("\n")
                assert lines.pop() == ""
                assert [list(json.loads(line).values()) for line in lines] == own
    assert {entry.client_id for entry in entries} == {"", *(row[1] for row in rows)}


def test_all_types_and_nulls(tmp_path: Path) -> None:
    full = (
        member(1), LEADERS[0], LEADERS[1], "sms", datetime(2026, 2, 28, 23, 59, 59, 999999), True,
        'He said "hi",\nthen left', "mms", "https://example.org/a,b", False, True,
        9223372036854775807, 0, -1, 4, 5, 6, "",
    )  # fmt: skip
    bare = (member(2), LEADERS[0], *([None] * 16))
    sink, report, _ = export(tmp_path, [full, bare], resource="campaigns")
    content = gzip.decompress(sink.files[LEADERS[0], "campaigns", "csv"]).decode()
    lines = content.split("\n", 1)[1]
    assert lines == (
        f'"{member(1)}","{LEADERS[0]}","{LEADERS[1]}","sms",2026-02-28T23:59:59.999999Z,true,'
        '"He said ""hi"",\nthen left","mms","https://example.org/a,b",false,true,'
        '9223372036854775807,0,-1,4,5,6,""\n'
        f'"{member(2)}","{LEADERS[0]}",' + "," * 15 + "\n"
    )
    records = json.loads(gzip.decompress(sink.files[LEADERS[0], "campaigns", "json"]))
    assert list(records[1].values()) == list(bare)
    assert records[0]["SENT_AT"] == "2026-02-28T23:59:59.999999Z"
    assert records[0]["TEST_CAMPAIGN"] is True
    assert records[0]["RECIPIENT_COUNT"] == 9223372036854775807
    assert report.null_counts["CHANNEL"] == 1
    assert report.null_counts["CAMPAIGN_ID"] == 0


def test_dates_are_plain(tmp_path: Path) -> None:
    row = (LEADERS[0], LEADERS[0], date(2024, 2, 29), "sms", "dm", 1, 2, 3)
    usage = "outbound_message_type_usage"
    sink, _, _ = export(tmp_path, [row], resource=usage)
    assert b'",2024-02-29,"sms","dm",1,2,3\n' in gzip.decompress(sink.files[LEADERS[0], usage, "csv"])
    assert b'"DATE_DAY":"2024-02-29"' in gzip.decompress(sink.files[LEADERS[0], usage, "json"])


def test_order_is_by_bytes_and_instants(tmp_path: Path) -> None:
    names = ["b", "a", "Z", "é", "z", "", "\U0001f600", "\uffee", "a\x00"]
    rows: list[tuple[str, str, str, str | None]] = [(member(1), LEADERS[0], name, None) for name in names]
    rows += [("ffffffff-0000-4000-8000-000000000000", LEADERS[0], "x", None)]
    rows += [("00000000-0000-4000-8000-000000000000", LEADERS[0], "x", "1")]
    rows += [("00000000-0000-4000-8000-000000000000", LEADERS[0], "x", "0")]
    sink, _, _ = export(tmp_path, rows)
    records = json.loads(gzip.decompress(sink.files[LEADERS[0], CUSTOM, "json"]))
    found = [(r["MEMBER_ID"], r["CUSTOM_FIELD_NAME"].encode(), r["CUSTOM_FIELD_VALUE"]) for r in records]
    assert found == sorted(((r[0], r[2].encode(), r[3]) for r in rows), key=lambda r: (r[0], r[1], r[2] or ""))


def test_header_only_file_is_shared(tmp_path: Path) -> None:
    sink, report, entries = export(tmp_path, [], formats=("csv", "json", "ndjson"))
    assert [entry.client_id for entry in entries] == [""]
    header = b'"MEMBER_ID","LEADER_ID","CUSTOM_FIELD_NAME","CUSTOM_FIELD_VALUE"\n'
    assert gzip.decompress(sink.files["", CUSTOM, "csv"]) == header
    assert gzip.decompress(sink.files["", CUSTOM, "json"]) == b"[]"
    assert gzip.decompress(sink.files["", CUSTOM, "ndjson"]) == b""
    assert (report.rows, report.leaders) == (0, 0)


def test_rows_of_unknown_leaders_are_counted_not_exported(tmp_path: Path) -> None:
    rows = [
        (member(1), LEADERS[0], "live", datetime(2026, 1, 1)),
        (member(2), "12345678-0000-4000-8000-000000000000", "live", datetime(2026, 1, 1)),
        (member(3), None, "live", datetime(2026, 1, 1)),
        (member(4), LEADERS[1], "asleep", datetime(2026, 1, 1)),
    ]
    sink, report, entries = export(tmp_path, rows, resource="member_state_changes")
    assert report.unknown_leader_rows == 2
    assert report.unexpected_values == {"SUBSCRIPTION_STATE": 1}
    assert [entry.client_id for entry in entries] == ["", LEADERS[0], LEADERS[1]]
    assert b"asleep" in gzip.decompress(sink.files[LEADERS[1], "member_state_changes", "csv"])


def many_rows(count: int, skew: int) -> list[tuple[object, ...]]:
    """Rows of uneven Leaders; the first one holds most."""
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
    """What is not the same of which file, in few words: pytest would take a minute to lay the bytes side by side."""
    said = {}
    for key in found.keys() | expected.keys():
        one, other = found.get(key, b""), expected.get(key, b"")
        if one != other:
            same = bool(one and other) and gzip.decompress(one) == gzip.decompress(other)
            said[key] = f"{len(one)} and {len(other)} bytes, content {'the same' if same else 'differs'}"
    return said


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_making, "PART_BYTES", 20_000)
        sink, _, _ = export(tmp_path_factory.mktemp("spill"), many_rows(6000, 9))
    return sink.files


@pytest.mark.parametrize(("threads", "engine_threads"), [(1, 1), (4, 3)])
@pytest.mark.parametrize("batch_rows", [2048, 100_000])
def test_same_rows_same_bytes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    baseline: dict[tuple[str, str, str], bytes],
    threads: int,
    engine_threads: int,
    batch_rows: int,
) -> None:
    monkeypatch.setattr(file_making, "PART_BYTES", 20_000)
    monkeypatch.setattr(line_stream, "FEWEST_ROWS", batch_rows)
    monkeypatch.setattr(line_stream, "MOST_ROWS", batch_rows)
    rows = many_rows(6000, 9)
    rows.reverse()
    sink, _, _ = export(tmp_path, rows, threads=threads, engine_threads=engine_threads)
    assert differences(sink.files, baseline) == {}


def test_a_large_file_is_one_member_made_of_parts(tmp_path: Path, baseline: dict[tuple[str, str, str], bytes]) -> None:
    plain, _, _ = export(tmp_path, many_rows(6000, 9))
    for key, stored in baseline.items():
        reader = zlib.decompressobj(31)
        content = reader.decompress(stored)
        assert reader.eof
        assert not reader.unused_data
        # Cut or not, the content is the same.
        assert content == gzip.decompress(plain.files[key])
    largest = baseline[LEADERS[0], CUSTOM, "csv"]
    assert largest.count(b"\x00\x00\xff\xff") >= 10, "no parts were made: this test shows nothing"


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_content_that_just_fills_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: int) -> None:
    rows = [(member(number), LEADERS[0], "field", "value") for number in range(50)]
    sink, _, _entries = export(tmp_path, rows)
    wanted = {key: gzip.decompress(stored) for key, stored in sink.files.items()}
    length = len(wanted[LEADERS[0], CUSTOM, "csv"])
    for parts in (1, 2, 5):
        monkeypatch.setattr(file_making, "PART_BYTES", (length + over) // parts)
        again, _, _ = export(tmp_path, rows)
        assert {key: gzip.decompress(stored) for key, stored in again.files.items()} == wanted


def fingerprints(entries: Iterable[ManifestEntry]) -> dict[str, str]:
    return {entry.client_id: entry.fingerprint for entry in entries if entry.client_id}


def test_unchanged_leaders_are_carried(tmp_path: Path) -> None:
    rows = many_rows(400, 3)
    _, _, entries = export(tmp_path, rows)
    before = fingerprints(entries)
    assert len(set(before.values())) == len(LEADERS)
    assert all(len(bytes.fromhex(value)) >= 16 for value in before.values())

    carried: list[str] = []
    changed = [(*row[:3], "new") if number == 3 else row for number, row in enumerate(rows)]
    sink, report, entries = export(tmp_path, changed, previous=before, on_carried=carried.extend)
    assert rows[3][1] == LEADERS[0] or rows[3][1] in LEADERS
    assert sorted(carried) == sorted(set(LEADERS) - {str(rows[3][1])})
    assert {key[0] for key in sink.files} == {"", rows[3][1]}
    assert report.carried == 3
    assert report.rows == 400

    # Carried or written, the bytes of a run over the same rows are the same.
    full, _, _ = export(tmp_path, changed)
    for key, stored in sink.files.items():
        assert full.files[key] == stored


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
    assert fingerprints(first) == fingerprints(same)
    assert fingerprints(first) != fingerprints(other)


def test_settings_that_shape_bytes_are_in_the_fingerprint(tmp_path: Path) -> None:
    rows = [(member(1), LEADERS[0], "a", "b")]
    seen = {
        fingerprints(export(tmp_path, rows, formats=formats, compression=compression)[2])[LEADERS[0]]
        for formats in (("csv",), ("csv", "json"))
        for compression in ("igzip-2", "zlib-ng-4")
    }
    assert len(seen) == 4


class FullSink(MemorySink):
    """A sink that fails after a few files."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._left = after
        self._count = threading.Lock()

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        with self._count:
            self._left -= 1
            if self._left < 0:
                raise FileStoreError("No space left.")
        return super().write(client_id, resource, format, pieces)


@pytest.mark.parametrize("after", [2, 3, 5])
@pytest.mark.parametrize("part_bytes", [2_000, 1 << 20])
def test_a_sink_that_fails_ends_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, part_bytes: int
) -> None:
    monkeypatch.setattr(file_making, "PART_BYTES", part_bytes)
    monkeypatch.setattr(file_making, "_WAITING_BYTES", 10_000)
    before = threading.active_count()
    with (
        made_up_reading(tmp_path, {CUSTOM: many_rows(3000, 2)}, LEADERS) as reading,
        pytest.raises(FileStoreError, match="No space left"),
    ):
        export_resource(reading, CUSTOM, ("csv", "json"), FullSink(after), on_entries=list[ManifestEntry]().extend)
    assert threading.active_count() == before


def test_rows_that_get_lost_on_the_way_end_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = record_batches
    monkeypatch.setattr(line_stream, "FEWEST_ROWS", 2048)
    monkeypatch.setattr(line_stream, "MOST_ROWS", 2048)
    monkeypatch.setattr(line_stream, "record_batches", lambda relation, rows: list(whole(relation, rows))[:-1])
    with pytest.raises(RunError, match="rows"):
        export(tmp_path, many_rows(6000, 9))


def test_progress_counts_rows(tmp_path: Path) -> None:
    seen: list[int] = []
    export(tmp_path, many_rows(100, 2), on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 100


def test_part_size_is_what_the_documentation_says() -> None:
    assert gzip_member.PART_BYTES == 1 << 20


def read_parquet(stored: bytes, folder: Path) -> tuple[list[str], list[list[object]]]:
    path = folder / "read.parquet"
    path.write_bytes(stored)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        described = connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
        text = ", ".join(f'CAST("{row[0]}" AS VARCHAR)' for row in described)
        rows = connection.execute(f"SELECT {text} FROM '{path}'").fetchall()
    return [f"{row[0]} {row[1]}" for row in described], [list(row) for row in rows]


def test_parquet_is_typed_and_holds_the_same_rows(tmp_path: Path) -> None:
    rows = [
        (member(number), LEADERS[number % 2], state, datetime(2026, 1, 1, 0, 0, 0, number))
        for number, state in enumerate(["live", None, "", 'he said "no"', "\x00", "\U0001f600"])
    ]
    changes = "member_state_changes"
    for formats in (("csv", "parquet", "json"), ("parquet",)):
        sink, _, entries = export(tmp_path, rows, resource=changes, formats=formats)
        assert [list(entry.formats) for entry in entries] == [list(formats)] * 3
        for entry in entries:
            stored = sink.files[entry.client_id, changes, "parquet"]
            assert entry.formats["parquet"].sha256 == hashlib.sha256(stored).hexdigest()
            assert entry.formats["parquet"].content_sha256 == entry.formats["parquet"].sha256
            columns, found = read_parquet(stored, tmp_path)
            assert columns == [
                "MEMBER_ID UUID",
                "LEADER_ID UUID",
                "SUBSCRIPTION_STATE VARCHAR",
                "STATE_CHANGED_AT TIMESTAMP WITH TIME ZONE",
            ]
            own = [row for row in rows if row[1] == entry.client_id]
            assert found == [
                [r[0], r[1], r[2], f"{r[3]:%Y-%m-%d %H:%M:%S}{f'.{r[3]:%f}'.rstrip('0').rstrip('.')}+00"] for r in own
            ]


def test_parquet_bytes_do_not_depend_on_threads(tmp_path: Path) -> None:
    rows = many_rows(5000, 3)
    one, _, _ = export(tmp_path, rows, formats=("parquet",), threads=1, engine_threads=1)
    rows.reverse()
    two, _, _ = export(tmp_path, rows, formats=("parquet",), threads=3, engine_threads=3)
    assert one.files == two.files
    assert len(one.files) == 5
