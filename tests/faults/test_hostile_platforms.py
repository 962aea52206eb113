"""A platform with hostile texts and extreme times: engines write the same bytes, and every format keeps the texts."""

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest

from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.export.job import ExportResults
from daybreak.sources.duckdb import DuckdbSource
from daybreak.sources.postgresql.source import PostgresqlSource
from daybreak.sources.reading import Reading
from tests.parts.export_rows import AS_OF, MemorySink, export_job, naughty_strings
from tests.parts.postgresql_tables import fill_tables
from tests.reference.platforms import HOSTILE, LEADERS, SQL_TYPES

LEADER = LEADERS[0]
BEFORE = datetime(2026, 11, 1, tzinfo=UTC)
FORMATS = ("csv", "json", "ndjson", "parquet")
Files = dict[tuple[str, str, str], bytes]
NUMBERS_AS_TEXT = ("00123", "1e5", "1E400", "12345678901234567890", "0x1F", "1,234", "NaN", "Infinity", "TRUE", "#N/A")
OTHERS = (
    "2026-11-20",
    "\\u0000",
    "\\ud800",
    "\ud7ff\ue000",
    "\ufffe\uffff",
    "\x1a",
    "\x08\x0c\x0b\x1b[31m",
    "\\N",
    "\\.",
)
LONG = ("long " * 20_000, '"' * 5_000, ",\n\r" * 3_000)
# PostgreSQL texts cannot contain NUL.
TEXTS = tuple(
    dict.fromkeys(text for text in (*naughty_strings(), *HOSTILE, *NUMBERS_AS_TEXT, *OTHERS, *LONG) if "\0" not in text)
)
DAYS = (
    "0001-01-01", "0001-01-01 (BC)", "4713-01-01 (BC)", "9999-12-31", "10000-01-01", "1582-10-10", "1900-02-28",
    "2000-02-29", "infinity", "-infinity",
)  # fmt: skip
INSTANTS = (
    "0001-01-01 00:00:00+00", "0001-01-01 (BC) 00:00:00+00", "4713-01-01 (BC) 00:00:00+00",
    "9999-12-31 23:59:59.999999+00", "1500-03-01 00:00:00+00", "1582-10-10 12:00:00+00",
    "1969-12-31 23:59:59.999999+00", "2026-11-20 03:11:59.999999+00", "infinity", "-infinity",
)  # fmt: skip


def _id(kind: int, number: int) -> str:
    return str(UUID(int=(kind << 64) + number))


def _tables() -> dict[str, list[dict[str, Any]]]:
    """Return tables in which every text column contains every text."""
    tables: dict[str, list[dict[str, Any]]] = {table.name: [] for table in SOURCE_TABLES}
    columns = {table.name: [column.name for column in table.columns] for table in SOURCE_TABLES}

    def add(table: str, **values: Any) -> None:
        tables[table].append({name: values.get(name) for name in columns[table]})

    add("leaders", leader_id=LEADER, leader_name=TEXTS[1])
    for number, text in enumerate(TEXTS):
        other = TEXTS[(number + 1) % len(TEXTS)]
        member, campaign, community = _id(1, number), _id(2, number), _id(3, number)
        named = dict.fromkeys(("phone_number", "first_name", "email", "state", "country", "gender"), text)
        more = dict.fromkeys(("last_name", "city", "state_code", "country_code", "device_type"), other)
        add("members", member_id=member, leader_id=LEADER, subscription_state=other, **named, **more)
        add(
            "member_state_changes", member_id=member, leader_id=LEADER, subscription_state=text, state_changed_at=BEFORE
        )
        add("custom_field_values", member_id=member, leader_id=LEADER, custom_field_name=text, custom_field_value=other)
        add("communities", community_id=community, leader_id=LEADER, community_name=text)
        add("community_memberships", community_id=community, member_id=member, joined_at=BEFORE)
        flags = {"is_test": False, "is_scheduled": True, "is_filtered": False}
        texts = {"campaign_name": text, "channel": other, "usage_channel": text, "text": other, "media_url": text}
        add("campaigns", campaign_id=campaign, leader_id=LEADER, sent_at=BEFORE, **texts, **flags)
        add("campaign_links", link_id=_id(4, number), campaign_id=campaign, link_type=text, link_url=other)
        add(
            "outbound_messages", message_id=_id(5, number), leader_id=LEADER, member_id=member, campaign_id=campaign,
            outbound_message_type=text, usage_channel=other, segment_count=number, unit_count=10**9, sent_at=BEFORE,
        )  # fmt: skip
        add(
            "terms", term_id=_id(6, number), term_language=text, custom_signup_language=other,
            additional_checkbox_language=text,
        )  # fmt: skip
        add(
            "member_term_accepts", member_id=member, leader_id=LEADER, term_id=_id(6, number), member_email=text,
            member_country_code=other, was_checked=True, was_pre_checked=False, accepted_at=BEFORE,
        )  # fmt: skip
    return tables


def _extreme_rows() -> list[str]:
    """Return statements, in DuckDB's SQL, that add a row of each table with instants at each extreme time."""
    statements: list[str] = []
    for number, (day, instant) in enumerate(zip(DAYS, INSTANTS, strict=True)):
        member = _id(7, number)
        ids, times = f"'{member}', '{LEADER}'", f"date_of_birth = '{day}', first_activated_at = '{instant}'"
        message = f"{ids}, '{member}', NULL, 'dm', 'sms', 1, 1, '{instant}'"
        campaign, community, term, texts = _id(8, number), _id(3, 0), _id(6, 0), "'', 'sms', 'sms', '', ''"
        columns = "member_id, leader_id, phone_number, subscription_state"
        statements += (
            f"INSERT INTO members ({columns}) VALUES ({ids}, '', 'live')",
            f"UPDATE members SET {times} WHERE member_id = '{member}'",
            f"INSERT INTO member_state_changes VALUES ({ids}, 'live', '{instant}')",
            f"INSERT INTO outbound_messages VALUES ({message})",
            f"INSERT INTO campaigns VALUES ('{campaign}', '{LEADER}', {texts}, false, false, false, '{instant}')",
            f"INSERT INTO campaign_links VALUES ('{campaign}', '{campaign}', 'link', '')",
            f"INSERT INTO inbound_messages VALUES ({ids}, '{member}', '{_id(2, 0)}', false, '{instant}')",
            f"INSERT INTO link_hits VALUES ('{_id(4, 0)}', '{member}', '{instant}')",
            f"INSERT INTO member_term_accepts VALUES ({ids}, '{term}', '', '', true, true, '{instant}')",
            f"INSERT INTO community_memberships VALUES ('{community}', '{member}', '{instant}', NULL)",
            f"INSERT INTO community_memberships VALUES ('{community}', '{campaign}', '{BEFORE}', '{instant}')",
        )
    return statements


def _files(reading: Reading) -> Files:
    reading.check()
    sink = MemorySink()
    for resource in RESOURCE_NAMES:
        reading.export(export_job(resource, FORMATS), sink, ExportResults())
    reading.confirm_unchanged()
    return sink.files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`platform.duckdb`, its tables as Parquet in `parquet`, and without the extreme times in `texts`."""
    folder = tmp_path_factory.mktemp("hostile")
    tables = _tables()
    with duckdb.connect(str(folder / "platform.duckdb")) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for table in SOURCE_TABLES:
            # Inserting row by row would take most of the test's time.
            rows = [
                {name: None if cell is None else str(cell) for name, cell in row.items()} for row in tables[table.name]
            ]
            schema = pa.schema([(column.name, pa.string()) for column in table.columns])
            connection.register("rows", pa.Table.from_pylist(rows, schema))
            columns = ", ".join(f"CAST({c.name} AS {SQL_TYPES[c.type]}) AS {c.name}" for c in table.columns)
            connection.execute(f"CREATE TABLE {table.name} AS SELECT {columns} FROM rows")
        for name in ("texts", "parquet"):
            (folder / name).mkdir()
            for table in SOURCE_TABLES:
                connection.execute(f"COPY {table.name} TO '{folder}/{name}/{table.name}.parquet' (FORMAT parquet)")
            if name == "texts":
                for statement in _extreme_rows():
                    connection.execute(statement)
    return folder


def _embedded(location: Path, folder: Path) -> Files:
    source = DuckdbSource(location, load_models(), memory_bytes=400_000_000, threads=2, temp_dir=folder / "spill")
    with source.open(AS_OF) as reading:
        return _files(reading)


@pytest.fixture(scope="module")
def files(folder: Path) -> Files:
    """The files that DuckDB exports from the DuckDB file."""
    return _embedded(folder / "platform.duckdb", folder)


@pytest.mark.release
def test_parquet_source_produces_the_same_files(folder: Path, files: Files) -> None:
    other = _embedded(folder / "parquet", folder)
    assert {name for name in files if files[name] != other.get(name)} == set()


def test_postgresql_source_produces_the_same_files(folder: Path, files: Files, postgresql_url: str) -> None:
    fill_tables(postgresql_url, folder / "texts")
    with psycopg.connect(postgresql_url) as server:
        for statement in _extreme_rows():
            server.execute(re.sub(r"\(BC\)([^']*)", r"\1 BC", statement).encode())
    source = PostgresqlSource(
        postgresql_url, load_models(), memory_bytes=400_000_000, threads=2, temp_dir=folder / "spill"
    )
    with source.open(AS_OF) as reading:
        other = _files(reading)
    assert {name for name in files if files[name] != other.get(name)} == set()


def test_every_format_contains_all_texts(files: Files) -> None:
    packed = {name: files[LEADER, "custom_member_data", name] for name in FORMATS}
    expected = {(text, TEXTS[(number + 1) % len(TEXTS)]) for number, text in enumerate(TEXTS)}

    def cells(records: list[dict[str, str]]) -> set[tuple[str, str]]:
        return {(record["CUSTOM_FIELD_NAME"], record["CUSTOM_FIELD_VALUE"]) for record in records}

    assert cells(json.loads(gzip.decompress(packed["json"]))) == expected
    lines = gzip.decompress(packed["ndjson"]).decode().removesuffix("\n").split("\n")
    assert cells([json.loads(line) for line in lines]) == expected
    assert cells(pyarrow.parquet.read_table(pa.BufferReader(packed["parquet"])).to_pylist()) == expected


def test_extreme_times_are_exported(files: Files) -> None:
    records = json.loads(gzip.decompress(files[LEADER, "members", "json"]))
    found = {record["DATE_OF_BIRTH"]: record["FIRST_ACTIVATED_AT"] for record in records if record["DATE_OF_BIRTH"]}
    assert found["9999-12-31"] == "9999-12-31T23:59:59.999999Z"
    assert found["0001-01-01"] == "0001-01-01T00:00:00.000000Z"
    outside = {"0001-01-01 (BC)", "4713-01-01 (BC)", "10000-01-01", "infinity", "-infinity"}
    assert set(found) == set(DAYS) - outside, "other times are NULL"
