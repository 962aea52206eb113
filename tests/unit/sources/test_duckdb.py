"""The DuckDB source: files and folders, error messages, the locked engine, and consistent readings."""

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

from daybreak.catalogue.models import Model, load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import OperatorError, SourceError, SourceUnavailable
from daybreak.export.job import ExportResults
from daybreak.sources.duckdb import DuckdbReading, DuckdbSource
from tests.parts.export_rows import MemorySink, export_job

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)
LEADER = "00000000-0000-4000-8000-00000000000a"
MEMBER = "11111111-0000-4000-8000-00000000000a"
COMMUNITY = "22222222-0000-4000-8000-00000000000a"
_TYPES = {
    "uuid": "UUID",
    "text": "VARCHAR",
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


def make_platform(path: Path, changes: Mapping[str, str] | None = None) -> Path:
    """Create a DuckDB file with all tables. `changes` has other CREATE statements by table; "" omits the table."""
    if changes:
        _create_tables(path, changes)
    else:
        path.write_bytes(_empty_platform())
    return path


@cache
def _empty_platform() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.duckdb"
        _create_tables(path, {})
        return path.read_bytes()


def _create_tables(path: Path, changes: Mapping[str, str]) -> None:
    with duckdb.connect(str(path)) as connection:
        for table in SOURCE_TABLES:
            columns = ", ".join(f"{c.name} {_TYPES[c.type.value]}" for c in table.columns)
            connection.execute(changes.get(table.name, f"CREATE TABLE {table.name} ({columns})") or "SELECT 1")


def fill(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def to_parquet(platform: Path, folder: Path) -> Path:
    folder.mkdir()
    with duckdb.connect(str(platform), read_only=True) as connection:
        for table in SOURCE_TABLES:
            connection.execute(f"COPY {table.name} TO '{folder}/{table.name}.parquet' (FORMAT parquet)")
    return folder


def write_parquet(query: str, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")


@contextmanager
def reading(location: Path, temp: Path, models: Mapping[str, Model] | None = None) -> Iterator[DuckdbReading]:
    source = DuckdbSource(
        location, models or load_models(), memory_bytes=256_000_000, threads=2, temp_dir=temp / "spill"
    )
    with source.open(AS_OF) as opened:
        yield opened


@pytest.fixture
def platform(tmp_path: Path) -> Path:
    path = make_platform(tmp_path / "platform.duckdb")
    fill(
        path,
        f"INSERT INTO leaders VALUES ('{LEADER}', 'One', NULL, NULL)",
        f"INSERT INTO members (member_id, leader_id, phone_number, subscription_state) "
        f"VALUES ('{MEMBER}', '{LEADER}', '+1', 'live')",
        f"INSERT INTO communities VALUES ('{COMMUNITY}', '{LEADER}', 'All')",
        f"INSERT INTO community_memberships VALUES ('{COMMUNITY}', '{MEMBER}', TIMESTAMP '2026-01-01', NULL)",
    )
    return path


@pytest.mark.parametrize("kind", ["file", "folder", "parts"])
def test_file_and_folder_give_the_same_rows(platform: Path, tmp_path: Path, kind: str) -> None:
    location = platform if kind == "file" else to_parquet(platform, tmp_path / "folder")
    if kind == "parts":
        (location / "members").mkdir()
        (location / "members.parquet").rename(location / "members" / "part-1.parquet")
        write_parquet(
            f"SELECT * REPLACE ('{MEMBER[:-1]}b'::UUID AS member_id) FROM '{location}/members/part-1.parquet'",
            location / "members" / "part-2.parquet",
        )
    sink = MemorySink()
    with reading(location, tmp_path) as opened:
        opened.check()
        assert opened.leaders() == [LEADER]
        assert opened.input_bytes() > 0
        report = opened.export(export_job("members", ("csv",)), sink, ExportResults())
        assert opened.referential_faults(RESOURCE_NAMES) == []
        opened.confirm_unchanged()
    assert report.rows == (2 if kind == "parts" else 1)
    assert set(sink.files) == {("", "members", "csv"), (LEADER, "members", "csv")}


def test_all_table_faults_are_listed(tmp_path: Path) -> None:
    path = make_platform(
        tmp_path / "platform.duckdb",
        {"terms": "", "communities": "CREATE TABLE communities (community_id UUID, community_name DOUBLE)"},
    )
    with pytest.raises(SourceError) as caught, reading(path, tmp_path):
        pass
    message = caught.value.message
    assert "table terms is missing" in message
    assert "column communities.leader_id is missing" in message
    assert "column communities.community_name is DOUBLE, expected text (VARCHAR" in message
    *_, last, advice = message.splitlines()
    assert last.endswith("(VARCHAR or ENUM)")
    assert "source.location" in advice
    assert not caught.value.transient


def test_invalid_location_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"), reading(tmp_path / "nowhere", tmp_path):
        pass
    (tmp_path / "notes.txt").write_text("not a database at all" * 1000, "utf-8")
    (tmp_path / "empty.duckdb").touch()
    write_parquet("SELECT 1 AS leader_id", tmp_path / "leaders.parquet")
    for name in ("notes.txt", "empty.duckdb", "leaders.parquet"):
        with pytest.raises(SourceError, match="not a DuckDB file"), reading(tmp_path / name, tmp_path):
            pass
    (tmp_path / "damaged.duckdb").write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 20_000)
    with pytest.raises(SourceError, match="cannot be opened"), reading(tmp_path / "damaged.duckdb", tmp_path):
        pass


def test_unusable_temp_dir_names_the_setting(platform: Path, tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("a file", "utf-8")
    with pytest.raises(OperatorError, match=r"snapshot\.temp_dir"), reading(platform, tmp_path):
        pass


def test_text_identifiers_and_zoned_times_are_accepted(tmp_path: Path) -> None:
    path = make_platform(
        tmp_path / "platform.duckdb",
        {
            "member_state_changes": "CREATE TABLE member_state_changes (member_id VARCHAR, leader_id VARCHAR, "
            "subscription_state VARCHAR, state_changed_at TIMESTAMPTZ)"
        },
    )
    fill(
        path,
        f"INSERT INTO leaders VALUES ('{LEADER}', 'One', NULL, NULL)",
        f"INSERT INTO member_state_changes VALUES ('{MEMBER.upper()}', '{LEADER.upper()}', 'live', "
        "'2026-11-20 06:00:00+02'), ('{}', '{}', 'blocked', '2026-11-20 04:00:00.000001+00')".format(MEMBER, LEADER),
    )
    sink = MemorySink()
    with reading(path, tmp_path) as opened:
        opened.check()
        opened.export(export_job("member_state_changes", ("ndjson",), compression="zlib-ng-4"), sink, ExportResults())
    content = gzip.decompress(sink.files[LEADER, "member_state_changes", "ndjson"]).decode()
    assert content == (
        f'{{"MEMBER_ID":"{MEMBER}","LEADER_ID":"{LEADER}","SUBSCRIPTION_STATE":"live",'
        '"STATE_CHANGED_AT":"2026-11-20T04:00:00.000000Z"}\n'
    )


def replaced(name: str, sql: str) -> dict[str, Model]:
    return {**load_models(), name: Model(name, sql, f"models/{name}.sql")}


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        (('SELECT community_id AS "COMMUNITY_ID", community_name AS "COMMUNITY_NAME", leader_id AS "LEADER_ID", '
         '1.5::DOUBLE AS "MEMBER_COUNT" FROM communities'),
         "models/communities.sql: column MEMBER_COUNT is DOUBLE, expected bigint (BIGINT"),
        ('SELECT community_id AS "COMMUNITY_ID", leader_id AS "LEADER_ID", 1 AS "MEMBER_COUNT" FROM communities',
         "models/communities.sql: column COMMUNITY_NAME is missing, expected text"),
        (('SELECT community_id AS "COMMUNITY_ID", leader_id AS "LEADER_ID", community_name AS "COMMUNITY_NAME", '
         '1 AS "MEMBER_COUNT" FROM communities'),
         "column 2 is LEADER_ID, expected COMMUNITY_NAME"),
        ("SELECT * FROM nowhere", "models/communities.sql: Catalog Error"),
    ],
)  # fmt: skip
def test_invalid_model_is_named(platform: Path, tmp_path: Path, sql: str, fault: str) -> None:
    with reading(platform, tmp_path, replaced("communities", sql)) as opened, pytest.raises(SourceError) as caught:
        opened.check()
    assert fault in caught.value.message


def test_aggregating_model_is_computed_once(platform: Path, tmp_path: Path) -> None:
    own = tmp_path / "models"
    own.mkdir()
    usual = load_models()["communities"].sql
    volatile = usual.replace("c.community_name", "CAST(random() AS VARCHAR)")
    (own / "communities.sql").write_text(volatile, "utf-8")
    with reading(platform, tmp_path, load_models(own)) as opened:
        found = []
        for _ in range(2):
            with closing(opened.cursor()) as cursor:
                found.append(cursor.execute(opened.rows_query("communities")).fetchall())
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_model_may_end_with_a_comment(platform: Path, tmp_path: Path) -> None:
    own = tmp_path / "models"
    own.mkdir()
    usual = load_models()["communities"].sql.strip()
    (own / "communities.sql").write_text(f"\ufeff{usual} -- a comment", "utf-8")
    with reading(platform, tmp_path, load_models(own)) as opened:
        opened.check()
        assert opened.referential_faults(RESOURCE_NAMES) == []
        report = opened.export(export_job("communities", ("csv",)), MemorySink(), ExportResults())
    assert report.rows == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT content FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('{folder}/other.csv')",
        "SELECT * FROM '{folder}/other.parquet'",
    ],
)
def test_models_cannot_read_other_files(platform: Path, tmp_path: Path, sql: str) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n", "utf-8")
    write_parquet("SELECT 1 AS a", tmp_path / "other.parquet")
    folder = to_parquet(platform, tmp_path / "folder")
    for location in (platform, folder):
        with reading(location, tmp_path) as opened:
            cursor = opened.cursor()
            with pytest.raises(duckdb.Error, match=r"(?i)disabled|permission|not allowed"):
                cursor.execute(sql.replace("{folder}", str(tmp_path)))
            for statement in ("INSTALL spatial", "SET threads = 1", f"COPY (SELECT 1) TO '{tmp_path}/out.csv'"):
                with pytest.raises(duckdb.Error):
                    cursor.execute(statement)
            cursor.close()
    assert not (tmp_path / "out.csv").exists()


def test_cycle_of_leaders_is_rejected(platform: Path, tmp_path: Path) -> None:
    fill(platform, f"UPDATE leaders SET parent_leader_id = '{LEADER}'")
    with reading(platform, tmp_path) as opened, pytest.raises(SourceError, match="cycle"):
        opened.check()


def test_changed_file_invalidates_the_reading(platform: Path, tmp_path: Path) -> None:
    folder = to_parquet(platform, tmp_path / "folder")
    with reading(folder, tmp_path) as opened:
        opened.confirm_unchanged()
        path = folder / "members.parquet"
        os.utime(path, ns=(1, 1))
        with pytest.raises(SourceUnavailable, match=r"members\.parquet"):
            opened.confirm_unchanged()
        path.unlink()
        with pytest.raises(SourceUnavailable, match=r"members\.parquet"):
            opened.confirm_unchanged()


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"PAR1, and something else")])
def test_errors_of_a_changed_file_are_transient(
    platform: Path, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = to_parquet(platform, tmp_path / "folder")

    def read() -> None:
        with reading(folder, tmp_path) as opened:
            change(folder / "members.parquet")
            opened.check()

    with pytest.raises(SourceUnavailable, match=r"(?s)changed while.*members\.parquet"):
        read()


def test_overwritten_file_invalidates_the_reading(platform: Path, tmp_path: Path) -> None:
    """The engine does not detect the change: it would read blocks of the new file."""
    other = make_platform(tmp_path / "other.duckdb")
    with reading(platform, tmp_path) as opened:
        opened.confirm_unchanged()
        shutil.copyfile(other, platform)
        with pytest.raises(SourceUnavailable, match=r"platform\.duckdb"):
            opened.confirm_unchanged()


def test_file_open_for_writing_elsewhere_is_transient(platform: Path, tmp_path: Path) -> None:
    program = (
        "import duckdb, sys\n"
        f"connection = duckdb.connect({str(platform)!r})\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
        "connection.close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(SourceUnavailable, match="another process") as caught, reading(platform, tmp_path):
            pass
        assert caught.value.transient
        writer.communicate("")
    with reading(platform, tmp_path) as opened:
        opened.check()


def test_missing_keys_are_an_example(platform: Path, tmp_path: Path) -> None:
    """The report of a run has a text as example."""
    fill(
        platform,
        "INSERT INTO members SELECT m.* REPLACE (NULL AS member_id) FROM members AS m, range(2)",
        f"INSERT INTO custom_field_values VALUES (NULL, '{LEADER}', 'a', 'b')",
    )
    with reading(platform, tmp_path) as opened:
        opened.check()
        faults = opened.referential_faults(RESOURCE_NAMES)
    assert [(fault.check, fault.rows, fault.example) for fault in faults] == [
        ("MEMBER_ID is unique in members", 1, "NULL"),
        ("MEMBER_ID of custom_member_data exists in members", 1, "NULL"),
    ]


def test_broken_view_is_named(platform: Path, tmp_path: Path) -> None:
    fill(platform, "ALTER TABLE terms RENAME TO gone", "CREATE VIEW terms AS FROM gone", "DROP TABLE gone")
    with pytest.raises(SourceError, match=r"Table terms cannot be read: .*gone"), reading(platform, tmp_path):
        pass


def test_milliseconds_that_overflow_name_their_column(platform: Path, tmp_path: Path) -> None:
    folder = to_parquet(platform, tmp_path / "parquet")
    changes = {
        "member_id": pa.array([MEMBER]),
        "leader_id": pa.array([LEADER]),
        "subscription_state": pa.array(["live"]),
        "state_changed_at": pa.array([2**60]).view(pa.timestamp("ms")),
    }
    pyarrow.parquet.write_table(pa.table(changes), folder / "member_state_changes.parquet")
    with (
        pytest.raises(SourceError, match=r"^member_state_changes\.state_changed_at: the Parquet files have values"),
        reading(folder, tmp_path) as opened,
    ):
        opened.export(export_job("member_state_changes"), MemorySink(), ExportResults())


def test_texts_that_are_not_utf8_name_their_column(platform: Path, tmp_path: Path) -> None:
    folder = to_parquet(platform, tmp_path / "parquet")
    table = pyarrow.parquet.read_table(folder / "members.parquet")
    invalid = pa.StringArray.from_buffers(1, *pa.array([b"secret\xff"], pa.binary()).buffers()[1:])
    table = table.set_column(table.schema.get_field_index("city"), "city", invalid)
    pyarrow.parquet.write_table(table, folder / "members.parquet")
    with (
        pytest.raises(SourceError, match=r"^members\.city: the Parquet files have texts .*members\.parquet") as caught,
        reading(folder, tmp_path) as opened,
    ):
        opened.export(export_job("members"), MemorySink(), ExportResults())
    assert "secret" not in caught.value.message


def test_repeated_terms_are_rejected(platform: Path, tmp_path: Path) -> None:
    terms = "66666666-0000-4000-8000-00000000000a"
    fill(platform, *["INSERT INTO terms (term_id) VALUES (NULL)"] * 2)
    with reading(platform, tmp_path) as opened:
        opened.check()  # no acceptance has the terms NULL
    fill(platform, *[f"INSERT INTO terms (term_id) VALUES ('{terms}')"] * 2)
    with reading(platform, tmp_path) as opened, pytest.raises(SourceError, match=f"two rows for term_id {terms}"):
        opened.check()


def test_null_members_and_counts_add_nothing(platform: Path, tmp_path: Path) -> None:
    campaign, link = "33333333-0000-4000-8000-00000000000a", "44444444-0000-4000-8000-00000000000a"
    fill(
        platform,
        f"INSERT INTO campaigns VALUES ('{campaign}', '{LEADER}', NULL, 'sms', 'sms', NULL, NULL, false, false, false, "
        "TIMESTAMP '2026-11-01')",
        f"INSERT INTO campaign_links VALUES ('{link}', '{campaign}', 'link', 'https://example.org')",
    )
    for member in (f"'{MEMBER}'", "NULL"):
        fill(
            platform,
            f"INSERT INTO outbound_messages VALUES (uuid(), '{LEADER}', {member}, '{campaign}', 'campaign', 'sms', "
            "NULL, NULL, TIMESTAMP '2026-11-01')",
            f"INSERT INTO inbound_messages VALUES (uuid(), '{LEADER}', {member}, '{campaign}', true, "
            "TIMESTAMP '2026-11-02')",
        )
    with reading(platform, tmp_path) as opened:

        def row(resource: str, columns: str) -> tuple[int, ...]:
            found = opened.cursor().execute(f"SELECT {columns} FROM ({opened.rows_query(resource)})").fetchall()
            assert len(found) == 1
            return tuple(found[0])

        assert row(
            "campaigns", "RECIPIENT_COUNT, RESPONSE_COUNT, REPLIED_COUNT, STOP_COUNT, UNIT_COUNT, SEGMENT_COUNT"
        ) == (1, 2, 1, 1, 0, 0)
        assert row("campaign_links", "RECIPIENT_COUNT") == (1,)
        assert row("outbound_message_type_usage", "MESSAGE_COUNT, SEGMENT_COUNT, UNIT_COUNT") == (2, 0, 0)


def test_collations_of_the_source_are_ignored(platform: Path, tmp_path: Path) -> None:
    fill(
        platform,
        "ALTER TABLE outbound_messages ALTER usage_channel TYPE VARCHAR COLLATE NOCASE",
        "ALTER TABLE members ALTER subscription_state TYPE VARCHAR COLLATE NOCASE",
        "UPDATE members SET subscription_state = 'DELETED'",
        "INSERT INTO outbound_messages "
        f"SELECT uuid(), '{LEADER}', '{MEMBER}', NULL, 'dm', unnest(['sms', 'mms', 'SMS']), 1, 1, '2026-11-01'",
    )
    sink = MemorySink()
    with reading(platform, tmp_path) as opened:
        for resource in ("outbound_message_type_usage", "members"):
            opened.export(export_job(resource, ("csv",)), sink, ExportResults())
    usage = gzip.decompress(sink.files[LEADER, "outbound_message_type_usage", "csv"]).decode().splitlines()[1:]
    assert [line.split(",")[3] for line in usage] == ['"SMS"', '"mms"', '"sms"']
    assert b'"+1","DELETED"' in gzip.decompress(sink.files[LEADER, "members", "csv"])


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_other_tables_are_reachable_by_name(platform: Path, tmp_path: Path, kind: str) -> None:
    fill(
        platform,
        f"CREATE TABLE accounts AS SELECT '{LEADER}' AS id, 'Ana' AS \"First name\"",
        'CREATE VIEW "Old accounts" AS FROM accounts',
        "CREATE TABLE gone AS SELECT 1 AS a",
        "CREATE VIEW of_gone AS SELECT a FROM gone",
        "DROP TABLE gone",
    )
    location = platform
    if kind == "folder":
        location = to_parquet(platform, tmp_path / "folder")
        for name in ("accounts", "Old accounts"):
            with duckdb.connect(str(platform), read_only=True) as connection:
                connection.execute(f"COPY \"{name}\" TO '{location}/{name}.parquet' (FORMAT parquet)")
    shipped = load_models()
    own = shipped["members"].sql.replace("FROM members", "JOIN accounts ON leader_id = accounts.id::UUID", 1)
    own = own.replace("JOIN accounts", "FROM members JOIN accounts").replace("ELSE city END", 'ELSE "First name" END')
    models = {**shipped, "members": Model("members", own, "mine.sql")}
    source = DuckdbSource(location, models, memory_bytes=256_000_000, threads=2, temp_dir=tmp_path / "spill")
    query = 'SELECT o.id, leader_name FROM "Old accounts" AS o JOIN leaders ON leader_id = o.id::UUID'
    assert source.query(query) == [{"id": LEADER, "leader_name": "One"}]
    for nothing in ("", "-- accounts", "SET threads = 1"):
        with pytest.raises(SourceError):
            source.query(nothing)
    with source.open(AS_OF) as opened:
        opened.check()
        assert opened.cursor().execute(f'SELECT "CITY" FROM ({opened.rows_query("members")})').fetchall() == [("Ana",)]


@pytest.mark.release
def test_rows_beyond_memory_spill(tmp_path: Path) -> None:
    path = make_platform(tmp_path / "platform.duckdb")
    fill(
        path,
        f"INSERT INTO leaders VALUES ('{LEADER}', 'One', NULL, NULL)",
        f"INSERT INTO custom_field_values SELECT uuid(), '{LEADER}', 'field', repeat('x', 400) || i "
        "FROM range(350000) AS t(i)",
    )
    results = ExportResults()
    source = DuckdbSource(path, load_models(), memory_bytes=120_000_000, threads=1, temp_dir=tmp_path / "spill")
    with source.open(AS_OF) as opened:
        report = opened.export(export_job("custom_member_data", ("csv",)), MemorySink(), results)
    assert report.rows == 350_000
    assert results.entries[-1].rows == 350_000


@pytest.mark.parametrize(
    ("metadata", "day", "refused"),
    [
        ("{'org.apache.spark.legacyDateTime': ''}", "1582-10-14", True),
        ("{'org.apache.spark.version': '2.4.8'}", "1500-03-01", True),
        ("{'writer.date.proleptic': 'false'}", "1500-03-01", True),
        ("{'org.apache.spark.legacyDateTime': ''}", "1582-10-15", False),
        ("{'org.apache.spark.version': '4.0.0'}", "1500-03-01", False),
    ],
)
def test_dates_of_the_julian_calendar_are_refused(tmp_path: Path, metadata: str, day: str, refused: bool) -> None:
    platform = make_platform(tmp_path / "platform.duckdb")
    fill(platform, f"INSERT INTO members (member_id, date_of_birth) VALUES ('{MEMBER}', '{day}')")
    folder = to_parquet(platform, tmp_path / "parquet")
    with duckdb.connect(str(platform), read_only=True) as connection:
        connection.execute(
            f"COPY members TO '{folder}/members.parquet' (FORMAT parquet, KV_METADATA {metadata}, OVERWRITE_OR_IGNORE)"
        )
    if not refused:
        with reading(folder, tmp_path):
            return
    with (
        pytest.raises(SourceError, match="members: date_of_birth in 1 row is before 1582-10-15"),
        reading(folder, tmp_path),
    ):
        pass
