"""Rows by Leader: buckets of any size, spilled or not, and SQL produce the same files."""

import errno
import gzip
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.catalogue.written_sums import SUMMED_COLUMNS
from daybreak.domain.errors import RunError
from daybreak.export import bucket_lines, duckdb_internals, leader_rows, row_partition
from daybreak.export.buckets import Buckets, Spill, move_segments
from daybreak.export.engine import open_engine
from daybreak.export.job import ExportResults, ResourceReport, RowCounts
from daybreak.export.line_encoder import encoder, runtime
from daybreak.export.line_encoder.encoder import BucketEncoder
from daybreak.export.line_encoder.partitioner import Divided, PackedRows, Partitioner
from daybreak.export.resource_export import export_resource
from daybreak.export.work_tables import WorkTables
from tests.parts.export_rows import MemorySink, SampleRows, export_job, naughty_strings, sample_rows
from tests.parts.replaced import with_functions

CUSTOM = "custom_member_data"
LEADERS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(6)]
Files = dict[tuple[str, str, str], bytes]


def member(number: int) -> str:
    return f"{number % 997:08x}-1111-4111-8111-{number:012x}"


def uneven_rows() -> list[tuple[str, str, str, str | None]]:
    """Return rows: Leader 1 has some wide rows, Leader 4 only wide rows, all rows of Leader 2 are of one Member, and
    those of Leader 3 are equal.
    """
    found: list[tuple[str, str, str, str | None]] = []
    for number in range(1800):
        leader = number % 6
        if leader == 2:
            found.append((member(7), LEADERS[2], f"field {number}", "x" * 40))
        elif leader == 3:
            found.append((member(7), LEADERS[3], "field", "z" * 40))
        elif leader == 4:
            found.append((member(number), LEADERS[4], "note", "y" * 2_000))
        elif leader == 1 and number % 3 == 1:
            found.append((member(number), LEADERS[1], "note", '"' * 1_700))
        else:
            found.append((member(number), LEADERS[leader], "field", None))
    return found


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[SampleRows]:
    with sample_rows(tmp_path, {CUSTOM: uneven_rows()}, LEADERS) as opened:
        yield opened


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the size of each bucket that the compiled encoder encodes."""
    sizes: list[int] = []
    sort = BucketEncoder._sort

    def recording(self: BucketEncoder, ordinals: range, size_bytes: int, read: object) -> object:
        sizes.append(size_bytes)
        return sort(self, ordinals, size_bytes, read)  # type: ignore[arg-type]

    monkeypatch.setattr(BucketEncoder, "_sort", recording)
    return sizes


def export(rows: SampleRows, *formats: str, threads: int = 2) -> tuple[Files, ResourceReport]:
    sink = MemorySink()
    job = export_job(CUSTOM, formats or ("csv", "json"), threads=threads)
    report = export_resource(rows, job, sink, ExportResults())
    return sink.files, report


def limit_buckets(monkeypatch: pytest.MonkeyPatch, max_bytes: int) -> None:
    monkeypatch.setattr(bucket_lines, "_MIN_BUCKET_BYTES", max_bytes)
    monkeypatch.setattr(bucket_lines, "_MAX_BUCKET_BYTES", max_bytes)
    monkeypatch.setattr(bucket_lines, "_GROUP_BYTES", max_bytes)
    monkeypatch.setattr(encoder, "_WHOLE_OUTPUT_RATIO", 1)


@pytest.mark.parametrize("max_bytes", [500_000, 20_000, 3_000])
@pytest.mark.parametrize("buckets", [1, 4, 256])
def test_buckets_do_not_change_the_bytes(
    rows: SampleRows, monkeypatch: pytest.MonkeyPatch, encoded: list[int], max_bytes: int, buckets: int
) -> None:
    """Leaders that are larger than a bucket are divided."""
    whole, _ = export(rows)
    assert {leader for leader, _, _ in whole} == {"", *LEADERS}
    monkeypatch.setattr(leader_rows, "_MAX_BUCKETS", buckets)
    monkeypatch.setattr(row_partition, "GROUP_BYTES", 30_000)
    limit_buckets(monkeypatch, max_bytes)
    encoded.clear()
    found, _ = export(rows)
    assert found == whole
    if max_bytes == 20_000:
        assert len(encoded) > 30
        equal_rows = 300 * (8 + 17 + 7 + 42)
        assert max(size for size in encoded if size != equal_rows) <= max_bytes


@pytest.mark.parametrize("max_bytes", [16 << 20, 20_000])
def test_spilled_buckets_do_not_change_the_bytes(
    rows: SampleRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    whole, report = export(rows)
    assert report.spill_bytes == 0
    files = set(tmp_path.rglob("*"))
    monkeypatch.setattr(row_partition, "GROUP_BYTES", 30_000)
    monkeypatch.setattr(leader_rows, "memory_bytes", lambda _: (100_000, 0))
    limit_buckets(monkeypatch, max_bytes)
    found, report = export(rows)
    assert found == whole
    assert report.spill_bytes > 400_000
    assert set(tmp_path.rglob("*")) == files


@pytest.mark.parametrize("large_bytes", [0, 1_500])
def test_rows_with_large_texts_do_not_change_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_bytes: int
) -> None:
    hostile = [(member(number), LEADERS[number % 6], text, text) for number, text in enumerate(naughty_strings())]
    with sample_rows(tmp_path, {CUSTOM: [*uneven_rows(), *hostile]}, LEADERS) as rows:
        whole, report = export(rows)
        monkeypatch.setattr(row_partition, "_LARGE_TEXT_BYTES", large_bytes)
        assert export(rows) == (whole, report)


def test_divider_with_much_memory_is_replaced(rows: SampleRows, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = export(rows)
    monkeypatch.setattr(row_partition, "GROUP_BYTES", 30_000)
    made: list[int] = []
    new = Partitioner.__init__

    def recording(self: Partitioner, leaders: bytes, bucket_of: bytes, buckets: int) -> None:
        made.append(buckets)
        new(self, leaders, bucket_of, buckets)

    monkeypatch.setattr(Partitioner, "__init__", recording)
    assert export(rows)[0] == whole
    assert len(made) <= 2
    monkeypatch.setattr(row_partition, "_MAX_DIVIDER_BYTES", 0)
    assert export(rows)[0] == whole
    assert len(made) > 10


def test_groups_are_smaller_when_many_threads_share_the_memory(
    rows: SampleRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    partition = Partitioner.partition

    def recording(self: Partitioner, group: Sequence[PackedRows]) -> Divided:
        groups.append(sum(len(rows.content) for rows in group))
        return partition(self, group)

    monkeypatch.setattr(Partitioner, "partition", recording)
    monkeypatch.setattr(row_partition, "_MIN_GROUP_BYTES", 1_000)
    monkeypatch.setattr(leader_rows, "memory_bytes", lambda _: (1_280_000, 0))
    whole, _ = export(rows)
    assert max(groups) > 40_000
    groups.clear()
    found, _ = export(rows, threads=16)
    assert found == whole
    # 640,000 bytes for all buckets, and a part before the group is full.
    assert max(groups) <= 2 * 640_000 // (8 * 16)


def test_large_leader_has_a_bucket_of_its_own() -> None:
    assert list(row_partition._buckets_of([1, 1, 100, 1, 1], 4)) == [0, 0, 2, 3, 3]


def test_stored_rows_of_the_engine_leave_less_memory_for_buckets(tmp_path: Path) -> None:
    limit = 100_000_000
    with closing(open_engine(memory_bytes=limit, threads=1, temp_dir=tmp_path)) as engine:
        # The engine rounds its limit.
        assert leader_rows.bucket_memory_bytes(engine) == pytest.approx(limit / 2, rel=0.01)
        for megabytes, expected in ((70, range(limit // 5, limit // 3)), (95, range(limit // 8, limit // 6))):
            engine.execute(
                f"CREATE OR REPLACE TABLE stored AS SELECT hash(n) AS n FROM range({megabytes * 125_000}) AS t(n)"
            )
            assert leader_rows.bucket_memory_bytes(engine) in expected


def test_totals_are_those_of_known_leaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, other = sorted(LEADERS)[:3]
    values = [(b, -3), (a, 2**63 - 1), (b, None), (other, 1), (None, 1), (b, -1), (a, 2**63 - 1)]
    columns = (Column("LEADER_ID", ColumnType.UUID, True, ""), Column("N", ColumnType.BIGINT, True, ""))
    monkeypatch.setitem(SUMMED_COLUMNS, "numbers", ("N",))
    with closing(open_engine(memory_bytes=100_000_000, threads=1, temp_dir=tmp_path)) as engine:
        engine.execute('CREATE TABLE numbers ("LEADER_ID" UUID, "N" BIGINT)')
        engine.executemany("INSERT INTO numbers VALUES (?, ?)", [list(row) for row in values])
        resource = Resource("numbers", "", "", "", columns, ("N",))
        tables = WorkTables(engine, resource, "SELECT * FROM numbers")
        totals, counts = tables.totals({a, b})
        assert [(one.client_id, one.rows, one.figures) for one in totals] == [
            (a, 2, (2**64 - 2,)),
            (b, 3, (2**64 - 4,)),
        ]
        assert counts == RowCounts({"LEADER_ID": 0, "N": 1}, {}, unknown=2)
        assert tables.totals(set()) == ([], RowCounts({"LEADER_ID": 0, "N": 0}, {}, unknown=7))


def test_spill_is_private_and_has_no_name(tmp_path: Path) -> None:
    spill = Spill(tmp_path)
    buckets = Buckets(2, 10, spill)
    buckets.add(memoryview(bytearray(b"first0123456789")), [5, 15])
    buckets.add(memoryview(bytearray(b"last")), [4, 4])
    assert spill.bytes == 15
    assert spill._file is not None
    found = os.fstat(spill._file.fileno())
    assert (stat.S_IMODE(found.st_mode), found.st_nlink) == (0o600, 0)
    assert list(tmp_path.iterdir()) == []
    assert buckets.sizes == [9, 10]
    for bucket, expected in enumerate((b"firstlast", b"0123456789")):
        records = bytearray(len(expected))
        move_segments(buckets.segments(range(bucket, bucket + 1)), memoryview(records))
        assert records == expected
    spill.close()


def test_full_disk_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("daybreak.export.buckets.os", with_functions(os, pwritev=full))
    with closing(Spill(tmp_path)) as spill:
        buckets = Buckets(1, 10, spill)
        buckets.add(memoryview(bytearray(b"0123456789a")), [11])
        with pytest.raises(RunError, match=r"snapshot\.temp_dir") as raised:
            buckets.add(memoryview(bytearray(b"b")), [1])
    assert raised.value.code == "disk_short"


def test_unexpected_sort_key_layout_falls_back_to_sql(
    rows: SampleRows, encoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = export(rows)
    assert encoded
    encoded.clear()
    # A later version of DuckDB may pack rows differently. Another order of NULLs simulates such a change.
    monkeypatch.setattr(duckdb_internals, "_SORT_KEY_ORDER", "'ASC NULLS LAST'")
    with capture_logs() as log:
        found = export(rows)
    assert encoded == []
    assert found == expected
    [warning] = log
    assert (warning["event"], warning["log_level"]) == ("export.encoder_unusable", "warning")
    assert "create_sort_key returned" in warning["reason"]


def test_sql_encodes_the_lines_without_the_library(
    rows: SampleRows, encoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = export(rows)
    encoded.clear()
    monkeypatch.setattr(runtime, "unavailable_reason", lambda: "switched off by the test")
    assert export(rows) == expected
    assert encoded == []
    assert b'""""' in gzip.decompress(expected[0][LEADERS[1], CUSTOM, "csv"])
