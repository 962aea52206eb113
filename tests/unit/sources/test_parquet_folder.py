"""Folders of Parquet files in the layouts of common writers: several files, partitions, files that are not data."""

import os
import shutil
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daybreak.domain.errors import SourceError
from daybreak.export.job import ExportResults
from daybreak.sources.parquet_folder import FileState, list_tables
from tests.parts.export_rows import MemorySink, export_job
from tests.unit.sources.test_duckdb import LEADER, MEMBER, fill, make_platform, reading, to_parquet, write_parquet

OTHER = LEADER[:-1] + "b"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a platform with two Leaders, each with one Member."""
    folder = tmp_path_factory.mktemp("pristine")
    platform = make_platform(folder / "platform.duckdb")
    fill(
        platform,
        f"INSERT INTO leaders VALUES ('{LEADER}', 'One', NULL, NULL), ('{OTHER}', 'Two', NULL, NULL)",
        "INSERT INTO members (member_id, leader_id, phone_number, subscription_state) "
        f"VALUES ('{MEMBER}', '{LEADER}', '+1', 'live'), ('{MEMBER[:-1]}b', '{OTHER}', '+2', 'live')",
    )
    return to_parquet(platform, folder / "folder")


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder that the test may change."""
    return shutil.copytree(pristine, tmp_path / "folder")


def rows_of_members(folder: Path, temp: Path) -> dict[str, int]:
    """Check and export a reading. Return the rows of members by Leader."""
    results = ExportResults()
    with reading(folder, temp) as opened:
        opened.check()
        opened.export(export_job("members", ("csv",)), MemorySink(), results)
        opened.confirm_unchanged()
    return {entry.client_id: entry.rows for entry in results.entries if entry.client_id}


def split_members(folder: Path, *names: str) -> None:
    """Replace the file of members by several files with one row each."""
    whole = (folder / "members.parquet").rename(folder / "_whole.parquet")
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_parquet(f"SELECT * FROM '{whole}' ORDER BY member_id LIMIT 1 OFFSET {number}", folder / name)


def partition_by_leader(folder: Path) -> None:
    """Partition a table as Spark, Hive and DuckDB do: the column is in the names of folders, not in the files."""
    whole = (folder / "members.parquet").rename(folder / "_whole.parquet")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (FROM '{whole}') TO '{folder}/members' (FORMAT parquet, PARTITION_BY (leader_id))")


def add_leftovers(folder: Path) -> None:
    split_members(folder, "members/part-0.parquet", "members/part-1.parquet")
    for name in (".part-0.parquet", ".tmp/0/part-0.parquet", "_SUCCESS", "_metadata", "_committed_17", "part-0.crc"):
        (folder / "members" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "members" / name).write_bytes(b"not data")


@pytest.mark.parametrize(
    "arrange",
    [
        lambda folder: split_members(folder, "members/a.parquet", "members/b.parquet"),
        lambda folder: split_members(folder, "members.parquet/part-0.snappy.parquet", "members.parquet/part-1.PARQUET"),
        lambda folder: (folder / "members.parquet").rename(folder / "Members.PARQUET"),
        partition_by_leader,
        add_leftovers,
        lambda folder: split_members(folder, "members/part-0.pq", "members/part-1"),
        lambda folder: split_members(folder, "members/part-0.parquet.gz", "members/part-1.parquet.crc.data"),
        lambda folder: split_members(folder, "members/_part-0", "members/part 1 (1).txt"),
        lambda folder: (folder / "members.parquet").rename(folder / "members.snappy.parquet"),
        lambda folder: (folder / "members.parquet").rename(folder / "members"),
    ],
    ids=[
        "several files", "folder named as a file", "upper case", "partitioned", "markers", "other endings",
        "two endings", "odd names", "codec in the name", "no ending",
    ],
)  # fmt: skip
def test_every_layout_of_a_table_is_read(folder: Path, tmp_path: Path, arrange: Callable[[Path], object]) -> None:
    arrange(folder)
    assert rows_of_members(folder, tmp_path) == {LEADER: 1, OTHER: 1}


def test_partition_column_has_its_type(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "campaigns.parquet").rename(folder / "_whole.parquet")
    with duckdb.connect() as connection:
        rows = f"SELECT * REPLACE ('{LEADER}'::UUID AS leader_id, true AS is_test, '007' AS text)"
        connection.execute(
            f"COPY ({rows} FROM (SELECT 1) LEFT JOIN '{whole}' ON true) TO '{folder}/campaigns' "
            "(FORMAT parquet, PARTITION_BY (is_test, text))"
        )
    with reading(folder, tmp_path) as opened:
        found = opened.cursor().execute("SELECT typeof(is_test), is_test, text FROM campaigns").fetchall()
    assert found == [("BOOLEAN", True, "007")]


def truncate_part(folder: Path) -> None:
    split_members(folder, "members/part-0", "members/part-1")
    part = folder / "members" / "part-1"
    part.write_bytes(part.read_bytes()[:-1])


def make_delta_table(folder: Path) -> None:
    split_members(folder, "members/a.parquet")
    (folder / "members" / "_delta_log").mkdir()


def add_second_table(folder: Path) -> None:
    (folder / "Members").mkdir()
    (folder / "Members" / "old.parquet").hardlink_to(folder / "members.parquet")


def link_part_twice(folder: Path) -> None:
    split_members(folder, "members/x=1/a.parquet")
    (folder / "members" / "x=2").mkdir()
    (folder / "members/x=2/b.parquet").hardlink_to(folder / "members/x=1/a.parquet")


def link_folder_twice(folder: Path) -> None:
    split_members(folder, "members/x=1/a.parquet")
    (folder / "members/x=2").symlink_to("x=1")


@pytest.mark.parametrize(
    ("arrange", "fault"),
    [
        (add_second_table, "Table members exists twice"),
        (lambda folder: split_members(folder, "members/a.parquet", "members/more/b.parquet"), r"more: .* column=value"),
        (lambda folder: split_members(folder, "members/a", "members/_temporary/0/b"), r"_temporary: .* column=value"),
        (lambda folder: split_members(folder, "members.parquet", "members-2.parquet"), r"members-2.* folder members/"),
        (lambda folder: split_members(folder, "members.parquet", "members.old.parquet"), r"old.* folder members/"),
        (lambda folder: split_members(folder, "members/a", "members/part-*.parquet"), r"must not contain \*"),
        (lambda folder: (folder / "notes.txt").write_text("PAR1 and more"), "notes.txt: not a complete Parquet"),
        (
            lambda folder: (folder / "members" / "x").mkdir(parents=True) or (folder / "members/x/y").symlink_to("z"),
            "x: ",
        ),
        (lambda folder: (folder / "late.parquet").symlink_to("missing"), "link to a missing file"),
        (truncate_part, "part-1: not a complete Parquet"),
        (lambda folder: os.mkfifo(folder / "members.pipe"), "members.pipe"),
        (
            lambda folder: split_members(folder, "members/a.parquet", "members/x=1/b.parquet"),
            "partitioned by the same columns",
        ),
        (link_part_twice, r"x=1/a\.parquet and .*x=2/b\.parquet are one file"),
        (link_folder_twice, r"x=1/a\.parquet and .*x=2/a\.parquet are one file"),
        (make_delta_table, "is a Delta table"),
    ],
)
def test_ambiguous_folder_is_rejected(
    folder: Path, tmp_path: Path, arrange: Callable[[Path], object], fault: str
) -> None:
    arrange(folder)
    with pytest.raises(SourceError, match=fault), reading(folder, tmp_path):
        pass


def test_all_entries_that_are_not_read_are_listed(folder: Path) -> None:
    for number in range(25):
        (folder / f"note-{number:02}.txt").touch()
    with pytest.raises(SourceError) as caught:
        list_tables(folder)
    assert caught.value.message.count("not a complete Parquet file") == 20
    assert caught.value.message.endswith("and 5 more")


def test_file_may_lack_nullable_columns_only(folder: Path, tmp_path: Path) -> None:
    split_members(folder, "members/a.parquet")
    other = folder / "members" / "b.parquet"
    columns = "member_id, leader_id, phone_number, subscription_state"
    write_parquet(f"SELECT {columns} FROM '{folder}/_whole.parquet' WHERE leader_id = '{OTHER}'", other)
    assert rows_of_members(folder, tmp_path) == {LEADER: 1, OTHER: 1}
    write_parquet(f"SELECT member_id, phone_number FROM '{folder}/_whole.parquet'", other)
    with pytest.raises(SourceError) as caught, reading(folder, tmp_path):
        pass
    assert f"column members.leader_id is missing in {other}" in caught.value.message
    assert f"column members.subscription_state is missing in {other}" in caught.value.message


def test_column_without_values_needs_no_type(folder: Path, tmp_path: Path) -> None:
    path = folder / "members.parquet"
    table = pq.read_table(path)
    for name in ("email", "date_of_birth", "first_activated_at"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, pa.field(name, pa.null()), pa.nulls(table.num_rows))
    pq.write_table(table, path)
    empty = pq.read_schema(folder / "link_hits.parquet")
    pq.write_table(pa.table({name: pa.nulls(0) for name in empty.names}), folder / "link_hits.parquet")
    assert rows_of_members(folder, tmp_path) == {LEADER: 1, OTHER: 1}


@pytest.mark.parametrize("kind", ["UBIGINT", "DECIMAL(38,0)", "UTINYINT"])
def test_counts_have_any_integer_type(folder: Path, tmp_path: Path, kind: str) -> None:
    path = folder / "outbound_messages.parquet"
    whole = path.rename(folder / "_whole.parquet")
    write_parquet(f"SELECT * REPLACE (CAST(200 AS {kind}) AS unit_count) FROM (SELECT 1) LEFT JOIN '{whole}' ON true",
                  path)  # fmt: skip
    with reading(folder, tmp_path) as opened:
        opened.check()
        assert opened.cursor().execute("SELECT unit_count FROM outbound_messages").fetchall() == [(200,)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kathmandu"])
def test_instants_have_any_unit_and_zone(folder: Path, tmp_path: Path, unit: str, zone: str | None) -> None:
    path = folder / "members.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("first_activated_at")
    instants = pa.array([datetime(2026, 3, 29, 1), datetime(1969, 12, 31, 23, 59, 59)], pa.timestamp(unit, zone))
    pq.write_table(table.set_column(place, "first_activated_at", instants), path)
    with reading(folder, tmp_path) as opened:
        opened.check()
        found = opened.cursor().execute("SELECT first_activated_at FROM members ORDER BY 1").fetchall()
    assert found == [(datetime(1969, 12, 31, 23, 59, 59),), (datetime(2026, 3, 29, 1),)]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_last_nanosecond_of_a_day_is_in_that_day(folder: Path, tmp_path: Path, zone: str | None) -> None:
    numbers = pa.array([None, -1, -1_000, 86_400_000_000_000 - 1, 2**63 - 1], pa.int64())
    message = {"message_id": MEMBER, "leader_id": LEADER, "member_id": MEMBER, "campaign_id": None,
               "outbound_message_type": "dm", "usage_channel": "sms", "segment_count": 1, "unit_count": 1}  # fmt: skip
    messages = pa.Table.from_pylist([message] * len(numbers))
    messages = messages.append_column("sent_at", numbers.cast(pa.timestamp("ns", zone)))
    pq.write_table(messages, folder / "outbound_messages.parquet")
    with reading(folder, tmp_path) as opened:
        opened.check()
        found = opened.cursor().execute("SELECT sent_at FROM outbound_messages ORDER BY 1 NULLS FIRST").fetchall()
        days = opened.cursor().execute(
            f'SELECT DISTINCT "DATE_DAY" FROM ({opened.rows_query("outbound_message_type_usage")}) ORDER BY 1'
        )
        assert days.fetchall() == [(date(1969, 12, 31),), (date(1970, 1, 1),)]
    last, endless = datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(9999, 12, 31, 23, 59, 59, 999_999)
    assert found == [(None,), (last,), (last,), (datetime(1970, 1, 1, 23, 59, 59, 999_999),), (endless,)]


def test_file_is_current_until_replaced(tmp_path: Path) -> None:
    path = tmp_path / "leaders.parquet"
    path.write_bytes(b"PAR1....PAR1")
    (table,) = list_tables(tmp_path)
    assert table.files == (FileState.of(path),)
    assert table.files[0].is_current()
    path.unlink()
    assert not table.files[0].is_current()


@pytest.mark.parametrize("parent", [".", "members"])
def test_name_that_is_not_utf8_is_rejected(tmp_path: Path, parent: str) -> None:
    """Neither the engine nor the state database could hold it."""
    (tmp_path / parent).mkdir(exist_ok=True)
    Path(os.fsdecode(os.fsencode(tmp_path / parent) + b"/\xff.parquet")).write_bytes(b"PAR1....PAR1")
    with pytest.raises(SourceError, match=r"has the entry '\\udcff\.parquet', whose name is not UTF-8\. Rename it\."):
        list_tables(tmp_path)
