"""PostgreSQL sources with other column types, text identifiers, other encodings and infinite times."""

import gzip
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.models import Model, load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError
from daybreak.export.job import ExportResults
from daybreak.snapshots.member_files import member_in_source
from daybreak.snapshots.report import accounting_warnings
from daybreak.sources.postgresql.source import PostgresqlSource
from daybreak.sources.reading import Reading
from tests.parts.export_rows import AS_OF, MemorySink, export_job
from tests.parts.postgresql import SERVER_SETTINGS, PostgreSQLServer, running_postgresql
from tests.parts.presence import absent
from tests.parts.row_faults import accounting
from tests.parts.sources import duckdb_source
from tests.parts.variants import one_of
from tests.unit.sources.test_duckdb import fill, make_platform

LEADER = "abcdef00-0000-4000-8000-00000000000a"
MEMBER = "abcdef11-1111-4000-8000-00000000000a"
CAMPAIGN = "abcdef33-3333-4000-8000-00000000000a"
LEADERS_ROW = f"INSERT INTO leaders VALUES ('{LEADER}', 'One', NULL, NULL)"
MEMBERS_ROW = (
    "INSERT INTO members (member_id, leader_id, phone_number, subscription_state, first_name, date_of_birth, "
    "first_activated_at) "
    f"VALUES ('{MEMBER}', '{LEADER}', '+1', 'live', {{}}, {{}}, {{}})"
)
CAMPAIGNS_ROW = (
    f"INSERT INTO campaigns VALUES ('{CAMPAIGN}', '{LEADER}', NULL, 'sms', 'sms', NULL, NULL, false, false, false, "
    "'2026-11-01')"
)
MESSAGES_ROW = (
    f"INSERT INTO outbound_messages VALUES ('{MEMBER}', '{LEADER}', '{MEMBER}', '{CAMPAIGN}', 'campaign', 'sms', {{}}, "
    "'2026-11-01')"
)


@pytest.fixture
def database(request: pytest.FixtureRequest, postgresql_server: PostgreSQLServer) -> Iterator[str]:
    """An empty database; its encoding is the parameter, else UTF-8."""
    name, encoding = postgresql_server.fresh_database(), getattr(request, "param", "UTF8")
    postgresql_server.drop(name)
    postgresql_server.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    yield postgresql_server.url(name)
    postgresql_server.drop(name)


def make_tables(url: str, *statements: str, as_text: frozenset[str] = frozenset()) -> None:
    """Create the source tables. Identifiers of the tables in `as_text` are text."""
    kinds = {ColumnType.TIMESTAMP: "timestamptz"}
    with psycopg.connect(url, client_encoding="UTF8") as connection:
        for table in SOURCE_TABLES:
            texts = {ColumnType.UUID: "char(40)"} if table.name in as_text else {}
            columns = ", ".join(f"{c.name} {texts.get(c.type, kinds.get(c.type, c.type))}" for c in table.columns)
            connection.execute(f"CREATE TABLE {table.name} ({columns})".encode())
        for statement in statements:
            connection.execute(statement.encode())


def postgresql(url: str, temp: Path) -> PostgresqlSource:
    return PostgresqlSource(url, load_models(), memory_bytes=300_000_000, threads=2, temp_dir=temp / "spill")


def files_of(reading: Reading) -> dict[str, str]:
    """Return every file with rows, unpacked, by `{leader}/{resource}.{format}`."""
    reading.check()
    sink = MemorySink()
    for resource in RESOURCE_NAMES:
        reading.export(export_job(resource), sink, ExportResults())
    assert reading.referential_faults(RESOURCE_NAMES) == []
    return {
        f"{leader}/{resource}.{name}": gzip.decompress(content).decode()
        for (leader, resource, name), content in sink.files.items()
        if leader
    }


def files_of_both(database: str, tmp_path: Path, *statements: str, ddl: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the files of the rows that `statements` insert, after a check that DuckDB exports the same files.

    `ddl` runs before the statements, only on the PostgreSQL server.
    """
    make_tables(database, *ddl, *statements)
    platform = make_platform(tmp_path / "platform.duckdb")
    fill(platform, *statements)
    embedded = duckdb_source(platform, tmp_path / "spill")
    with postgresql(database, tmp_path).open(AS_OF) as reading:
        found = files_of(reading)
    with embedded.open(AS_OF) as reading:
        assert found == files_of(reading)
    return found


@pytest.mark.parametrize("outside", one_of("infinity", "-infinity", "10000-01-01"))
def test_times_outside_of_files_are_null_and_counted(database: str, tmp_path: Path, outside: str) -> None:
    statements = (LEADERS_ROW, MEMBERS_ROW.format("NULL", f"'{outside}'", f"'{outside}'"))
    found = files_of_both(database, tmp_path, *statements)
    assert found[f"{LEADER}/members.csv"].splitlines()[1].endswith(',"+1","live",,,,,,,,,,,,')
    with postgresql(database, tmp_path).open(AS_OF) as reading:
        report = reading.export(export_job("members"), MemorySink(), ExportResults())
    assert report.counts.unexpected == {"DATE_OF_BIRTH": 1, "FIRST_ACTIVATED_AT": 1}


def test_messages_before_the_first_year_are_one_row(database: str, tmp_path: Path) -> None:
    messages = (
        f"INSERT INTO outbound_messages VALUES ('{MEMBER[:-1]}{number}', '{LEADER}', '{MEMBER}', NULL, 'dm', 'sms', 1, "
        f"1, {sent_at})"
        for number, sent_at in enumerate(("'-infinity'", "'0001-01-01'::timestamp - INTERVAL '2' DAY", "'2026-11-01'"))
    )
    found = files_of_both(database, tmp_path, LEADERS_ROW, *messages)
    first, second = found[f"{LEADER}/outbound_message_type_usage.csv"].splitlines()[1:]
    assert first.endswith('",,"sms","dm",2,2,2')
    assert second.endswith(',2026-11-01,"sms","dm",1,1,1')
    with postgresql(database, tmp_path).open(AS_OF) as reading:
        assert accounting(reading, "postgresql", AS_OF).status["outbound_message_type_usage"] == "proved"


@pytest.mark.release
def test_own_model_sees_instants_in_utc_without_zone(database: str, tmp_path: Path) -> None:
    make_tables(database, LEADERS_ROW, MEMBERS_ROW.format("'Ana'", "NULL", "'2025-01-01 12:34:56+02'"))
    shipped = load_models()
    own = shipped["members"].sql.replace("ELSE city END", "ELSE CAST(first_activated_at AS VARCHAR) END")
    assert own != shipped["members"].sql
    models = {**shipped, "members": Model("members", own, "mine.sql")}
    source = PostgresqlSource(database, models, memory_bytes=300_000_000, threads=2, temp_dir=tmp_path / "spill")
    with source.open(AS_OF) as reading:
        assert '"2025-01-01 10:34:56"' in files_of(reading)[f"{LEADER}/members.csv"]


@pytest.mark.release
def test_duplicate_link_counts_once(database: str, tmp_path: Path) -> None:
    """Hits of a duplicate link count once. Hits of two links with the same URL are added."""
    one, other = f"{CAMPAIGN[:-1]}1", f"{CAMPAIGN[:-1]}2"
    links = (
        f"INSERT INTO campaign_links VALUES ('{link}', '{CAMPAIGN}', 'link', 'https://example.org')"
        for link in (one, one, other)
    )
    hits = (f"INSERT INTO link_hits VALUES ('{link}', NULL, '2026-11-02')" for link in (one, one, other))
    found = files_of_both(database, tmp_path, LEADERS_ROW, CAMPAIGNS_ROW, *links, *hits)
    (row,) = found[f"{LEADER}/campaign_links.csv"].splitlines()[1:]
    assert row.endswith(',"https://example.org",0,3')


@pytest.mark.parametrize("citext", one_of("extensions.citext", "citext"))
def test_texts_of_any_type_compare_case_sensitively(database: str, tmp_path: Path, citext: str) -> None:
    """An enum may lack `deleted`, and citext neither merges two values nor makes a Member deleted."""
    ddl = (
        "CREATE SCHEMA extensions",
        f"CREATE EXTENSION citext SCHEMA {'extensions' if '.' in citext else 'public'}",
        "CREATE TYPE gender AS ENUM ('female', 'male')",
        "CREATE TYPE state AS ENUM ('live')",
        f"ALTER TABLE members ALTER subscription_state TYPE {citext}, ALTER gender TYPE gender USING gender::gender",
        "ALTER TABLE member_state_changes ALTER subscription_state TYPE state USING subscription_state::state",
        f"ALTER TABLE outbound_messages ALTER usage_channel TYPE {citext}",
    )
    messages = (
        f"INSERT INTO outbound_messages VALUES ('{MEMBER[:-1]}{number}', '{LEADER}', '{MEMBER}', NULL, 'dm', "
        f"'{channel}', 1, 1, '2026-11-01')"
        for number, channel in enumerate(("sms", "SMS"))
    )
    rows = (
        LEADERS_ROW,
        MEMBERS_ROW.replace("'live'", "'Deleted'").format("'Ana'", "NULL", "NULL"),
        f"INSERT INTO member_state_changes VALUES ('{MEMBER}', '{LEADER}', 'live', '2026-11-01')",
        *messages,
    )
    found = files_of_both(database, tmp_path, *rows, ddl=ddl)
    assert '"Deleted","Ana"' in found[f"{LEADER}/members.csv"]
    usage = found[f"{LEADER}/outbound_message_type_usage.csv"].splitlines()[1:]
    assert [line.split(",")[3] for line in usage] == ['"SMS"', '"sms"']


@pytest.mark.release
def test_texts_compare_by_their_bytes_in_any_collation(tmp_path: Path) -> None:
    """In this collation `Deleted` equals `deleted`, and `https://x/A` equals `https://x/a`."""
    ddl = (
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "ALTER TABLE members ALTER member_id TYPE text COLLATE ci, ALTER subscription_state TYPE varchar COLLATE ci",
        "ALTER TABLE campaign_links ALTER link_url TYPE text COLLATE ci",
    )
    links = (
        f"INSERT INTO campaign_links VALUES ('{MEMBER[:-1]}{number}', '{CAMPAIGN}', 'link', 'https://x/{path}')"
        for number, path in enumerate("Aa")
    )
    member = MEMBERS_ROW.replace("'live'", "'Deleted'").format("'Ana'", "NULL", "NULL")
    try:
        # The server of the Python package has no ICU.
        with running_postgresql(SERVER_SETTINGS, extension="uuid-ossp") as server:
            found = files_of_both(server.url(), tmp_path, LEADERS_ROW, member, CAMPAIGNS_ROW, *links, ddl=ddl)
    except LookupError:
        absent("PostgreSQL with ICU", "apt-get install postgresql")
    assert '"Deleted","Ana"' in found[f"{LEADER}/members.csv"]
    assert len(found[f"{LEADER}/campaign_links.csv"].splitlines()) == 3


def test_padding_of_char_is_no_part_of_a_text(database: str, tmp_path: Path) -> None:
    make_tables(
        database,
        LEADERS_ROW,
        MEMBERS_ROW.format("'x'", "NULL", "NULL"),
        "ALTER TABLE members ALTER subscription_state TYPE char(12)",
        as_text=frozenset({"members"}),
    )
    shipped = load_models()
    members = Model("members", shipped["members"].sql + " WHERE subscription_state LIKE 'live'", "members.sql")
    source = replace(postgresql(database, tmp_path), models={**shipped, "members": members})
    with source.open(AS_OF) as reading:
        assert MEMBER in files_of(reading)[f"{LEADER}/members.csv"]
    assert source.query("SELECT 'a@b.c '::char(9) AS padded, 'a '::text AS text, NULL::char(9) AS missing") == [
        {"padded": "a@b.c", "text": "a ", "missing": None}
    ]
    assert member_in_source(source, MEMBER).tables == ("members",)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE members SET subscription_state = 'deleted'")
    assert member_in_source(source, MEMBER).state == "deleted"


def test_enum_may_lack_states_of_the_models(database: str, tmp_path: Path) -> None:
    ddl = (
        "CREATE TYPE state AS ENUM ('live', 'opted_out')",
        "ALTER TABLE members ALTER subscription_state TYPE state USING subscription_state::state",
    )
    found = files_of_both(database, tmp_path, LEADERS_ROW, MEMBERS_ROW.format("'Ana'", "NULL", "NULL"), ddl=ddl)
    assert '"live","Ana"' in found[f"{LEADER}/members.csv"]


@pytest.mark.release
def test_domain_is_treated_as_its_base_type(database: str, tmp_path: Path) -> None:
    domains = {"uuid": "uuid", "bigint": "numeric", "boolean": "boolean", "date": "date", "timestamp": "timestamptz"}
    ddl = [f"CREATE DOMAIN {name}_below AS {kind}" for name, kind in domains.items()]
    ddl += [f"CREATE DOMAIN our_{name} AS {name}_below CHECK (VALUE IS NOT NULL OR true)" for name in domains]
    ddl += [
        f"ALTER TABLE {table.name} ALTER {column.name} TYPE our_{column.type}"
        for table in SOURCE_TABLES
        for column in table.columns
        if column.type.value in domains
    ]
    rows = (
        LEADERS_ROW,
        MEMBERS_ROW.format("'Ana'", "'2000-02-29'", "'2025-01-01'"),
        CAMPAIGNS_ROW,
        MESSAGES_ROW.format("1, 2"),
    )
    found = files_of_both(database, tmp_path, *rows, ddl=tuple(ddl))
    assert found[f"{LEADER}/campaigns.csv"].splitlines()[1].endswith(",1,0,0,0,2,1,")


def test_error_names_a_column_in_another_case(database: str, tmp_path: Path) -> None:
    make_tables(database, 'ALTER TABLE members RENAME COLUMN email TO "Email"')
    with postgresql(database, tmp_path).open(AS_OF) as reading, pytest.raises(SourceError) as caught:
        reading.check()
    assert 'column members.email is missing. Column "Email" exists' in caught.value.message


def test_duplicate_terms_are_rejected(database: str, tmp_path: Path) -> None:
    terms = [f"INSERT INTO terms (term_id) VALUES ('{name}')" for name in (CAMPAIGN, CAMPAIGN.upper())]
    make_tables(database, *terms, as_text=frozenset({"terms"}))
    with postgresql(database, tmp_path).open(AS_OF) as reading, pytest.raises(SourceError, match=CAMPAIGN):
        reading.check()


def test_last_times_of_the_server_are_null(database: str, tmp_path: Path) -> None:
    """The driver changes them to times before year 1."""
    make_tables(database, LEADERS_ROW, MEMBERS_ROW.format("NULL", "'5874897-12-31'", "'294276-12-31'"))
    with postgresql(database, tmp_path).open(AS_OF) as reading:
        found = files_of(reading)
    assert found[f"{LEADER}/members.csv"].splitlines()[1].endswith(',"+1","live",,,,,,,,,,,,')


# The other tests of this file have a database in UTF-8.
@pytest.mark.parametrize(
    "database",
    one_of("LATIN1", "WIN1252", "UTF8", "SQL_ASCII"),
    indirect=True,
)
def test_database_may_have_any_encoding(database: str, tmp_path: Path) -> None:
    make_tables(database, LEADERS_ROW, MEMBERS_ROW.format("'Zoë'", "NULL", "NULL"))
    with postgresql(database, tmp_path).open(AS_OF) as reading:
        assert '"Zoë"' in files_of(reading)[f"{LEADER}/members.csv"]
    assert postgresql(database, tmp_path).query("SELECT first_name FROM members") == [{"first_name": "Zoë"}]


@pytest.mark.parametrize("database", ["SQL_ASCII"], indirect=True)
def test_text_in_another_encoding_names_the_reason(database: str, tmp_path: Path) -> None:
    """SQL_ASCII stores any bytes, and the rows of all accounts would be read without a check."""
    make_tables(database, LEADERS_ROW, MEMBERS_ROW.format("E'Zo\\353'", "NULL", "NULL"))
    with (
        postgresql(database, tmp_path).open(AS_OF) as reading,
        pytest.raises(SourceError, match=r"Resource members: .* bytes that its encoding does not allow.*SQL_ASCII"),
    ):
        files_of(reading)


def test_files_do_not_depend_on_settings_of_the_server(database: str, tmp_path: Path) -> None:
    """The identifiers are text, which a pattern with a backslash checks."""
    settings = {
        "DateStyle": "German",
        "IntervalStyle": "iso_8601",
        "TimeZone": "Asia/Kathmandu",
        "standard_conforming_strings": "off",
        "extra_float_digits": "0",
        "bytea_output": "escape",
    }
    rows = [LEADERS_ROW, MEMBERS_ROW.format("'Zoë'", "'2000-02-03'", "'2026-01-02 03:04:05Z'")]
    make_tables(database, *rows, as_text=frozenset({"members"}))
    with postgresql(database, tmp_path).open(AS_OF) as reading:
        expected = files_of(reading)
    with psycopg.connect(database, autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} TO '{value}'".encode())
    source = postgresql(database, tmp_path)
    with source.open(AS_OF) as reading:
        assert files_of(reading) == expected
    day = datetime(2026, 11, 3, tzinfo=UTC)
    query = "SELECT timestamptz '2026-11-03Z' AS time, date '2026-11-03' AS day, interval '1 day' AS span"
    assert source.query(query) == [{"time": day, "day": day.date(), "span": timedelta(days=1)}]


@pytest.mark.parametrize(
    "as_text",
    one_of(
        frozenset({"campaigns", "members", "member_state_changes"}),
        frozenset({"leaders"}),
        frozenset(table.name for table in SOURCE_TABLES),
    ),
    ids=["some", "leaders", "all"],
)
def test_identifiers_may_be_text_in_some_tables(database: str, tmp_path: Path, as_text: frozenset[str]) -> None:
    campaign, member = (
        f"{{{identifier.upper()}}}" if table in as_text else identifier
        for table, identifier in (("campaigns", CAMPAIGN), ("members", MEMBER))
    )
    make_tables(
        database,
        LEADERS_ROW.replace(LEADER, LEADER.upper().replace("-", "")),
        MEMBERS_ROW.format("'Ana'", "NULL", "NULL").replace(MEMBER, member),
        f"INSERT INTO campaigns VALUES ('{campaign}', '{LEADER}', NULL, 'sms', 'sms', NULL, NULL, false, false, false, "
        "'2026-11-01')",
        f"INSERT INTO outbound_messages VALUES (gen_random_uuid(), '{LEADER}', '{MEMBER}', '{CAMPAIGN}', 'campaign', "
        "'sms', 1, 2, '2026-11-01')",
        f"INSERT INTO member_state_changes VALUES ('{MEMBER}', '{LEADER}', 'live', '2026-11-01')",
        as_text=as_text,
    )
    with postgresql(database, tmp_path).open(AS_OF) as reading:
        found = files_of(reading)
        assert reading.leaders() == [LEADER]
    assert found[f"{LEADER}/campaigns.csv"].splitlines()[1].startswith(f'"{CAMPAIGN}","{LEADER}","{LEADER}"')
    assert found[f"{LEADER}/campaigns.csv"].splitlines()[1].endswith(",1,0,0,0,2,1,")
    assert found[f"{LEADER}/members.csv"].splitlines()[1].startswith(f'"{MEMBER}","{LEADER}","+1","live","Ana"')


@pytest.mark.parametrize(
    "location",
    [
        "platform",
        "host=127.0.0.1 dbname=platform password=hunter2",
        "mysql://hunter2@127.0.0.1/platform",
        "postgresql://reader:hunter2%zz@127.0.0.1/platform",
        "postgresql://reader@127.0.0.1/platform?hunter2=1",
    ],
)
def test_invalid_url_is_not_in_the_error(location: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"source\.location") as caught, postgresql(location, tmp_path).open(AS_OF):
        pass
    assert "hunter2" not in caught.value.message
    with pytest.raises(SourceError, match=r"source\.location"):
        postgresql(location, tmp_path).query("SELECT 1")


def test_malformed_rows_are_refused_and_named(database: str, tmp_path: Path) -> None:
    """A text that is not a UUID, and a count that is negative, too large or a fraction, do not delay other rows."""
    wider = (
        "ALTER TABLE members ALTER member_id TYPE {text}",
        "ALTER TABLE members ALTER leader_id TYPE {text}",
        "ALTER TABLE outbound_messages ALTER unit_count TYPE numeric(30, 2)",
    )
    message = (
        f"INSERT INTO outbound_messages VALUES ('{MEMBER[:-1]}{{}}', '{LEADER}', '{MEMBER}', NULL, 'dm', 'sms', "
        "{}, {}, '2026-11-01')"
    )
    valid = MEMBERS_ROW.format("'Ana'", "NULL", "NULL")
    rows = (
        LEADERS_ROW,
        valid,
        valid.replace(MEMBER, "oops"),
        valid.replace(MEMBER, f"{MEMBER[:-1]}7").replace(LEADER, "nobody"),
        message.format(1, 1, 5),
        message.format(2, 1, 2**70),
        message.format(3, 1, "-0.5"),
        message.format(4, -1, 5),
        message.format(5, 2**63 - 1, 5),
        message.format(6, 2**63 - 1, 5),
        message.format(7, "NULL", 10**9),
        message.format(8, 1, "1.5"),
    )
    make_tables(database, *(each.format(text="text") for each in wider), *rows)
    platform = make_platform(tmp_path / "platform.duckdb")
    fill(platform, *(each.format(text="VARCHAR") for each in wider), *rows)
    duck = duckdb_source(platform, tmp_path / "spill")
    server = postgresql(database, tmp_path)
    reports = {}
    for engine, source in (("duckdb", duck), ("postgresql", server)):
        with source.open(AS_OF) as reading:
            reading.check()
            found = files_of(reading)
        assert len(found[f"{LEADER}/members.csv"].splitlines()) == 2
        assert found[f"{LEADER}/outbound_message_type_usage.csv"].splitlines()[1].endswith('"sms","dm",2,1,1000000005')
        with source.open(AS_OF) as reading:
            reading.check()
            reports[engine] = accounting(reading, engine, AS_OF)
        with (
            replace(source, malformed_rows="fail").open(AS_OF) as reading,
            pytest.raises(SourceError, match="members: member_id is malformed in 1 row, such as member_id 'oops'"),
        ):
            reading.check()
    assert reports["duckdb"] == reports["postgresql"]
    assert set(reports["duckdb"].status.values()) == {"proved"}
    excluded = {(t.resource, t.table): dict(t.excluded) for t in reports["duckdb"].tables if t.excluded}
    assert excluded["members", "members"] == {"malformed": 2}
    assert excluded["outbound_message_type_usage", "outbound_messages"] == {"malformed": 6}
    assert "members: member_id is malformed in 1 row, such as member_id 'oops'. The rows are in no file." in list(
        accounting_warnings(reports["duckdb"])
    )
