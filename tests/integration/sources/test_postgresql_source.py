"""PostgreSQL source: same bytes as DuckDB, consistent snapshot, privileges, TLS and timeouts."""

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import nanoarrow
import psycopg
import pytest

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.models import Model, load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.cli.doctor_deep import run_own_models
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.errors import OperatorError, SourceError, SourceUnavailable
from daybreak.sources.postgresql import server_snapshot
from daybreak.sources.postgresql.server_snapshot import ServerSnapshot, open_snapshot, open_transaction
from daybreak.sources.postgresql.source import PostgresqlSource
from daybreak.sources.postgresql.tables import ServerTables
from tests.parts.certificates import own_certificate
from tests.parts.export_rows import AS_OF, all_entries
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.postgresql_tables import fill_tables
from tests.parts.row_faults import ENDLESS_MODEL, accounted_for, add_faults
from tests.parts.sources import duckdb_source


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("platform")
    make_platform(folder, PlatformSizes(leaders=12, members=4000, messages=12_000), as_of=AS_OF)
    return folder


@pytest.fixture(scope="module")
def filled_database(postgresql_server: PostgreSQLServer, parquet: Path) -> Iterator[str]:
    database = postgresql_server.fresh_database()
    url = postgresql_server.url(database)
    fill_tables(url, parquet)
    yield url
    postgresql_server.drop(database)


def source_on(url: str, temp_dir: Path, *own: Model, **options: Any) -> PostgresqlSource:
    """Return a source with the shipped models, except those of resources with an own model."""
    models = {**load_models(), **{model.resource: model for model in own}}
    return PostgresqlSource(url, models, memory_bytes=300_000_000, threads=2, temp_dir=temp_dir, **options)


def test_files_equal_those_of_duckdb(filled_database: str, parquet: Path, tmp_path: Path) -> None:
    embedded = duckdb_source(parquet, tmp_path)
    with embedded.open(AS_OF) as reading:
        expected = all_entries(reading)
    with source_on(filled_database, tmp_path).open(AS_OF) as reading:
        reading.check()
        assert reading.input_bytes() > 0
        found = all_entries(reading)
        assert reading.referential_faults(RESOURCE_NAMES) == []
        reading.confirm_unchanged()
    assert len(expected) > 9
    assert found == expected
    assert list(tmp_path.iterdir()) == [], "temporary files are removed with the reading"


def test_reading_is_not_affected_by_concurrent_writes(filled_database: str, tmp_path: Path) -> None:
    changed = ("members", "communities")
    with source_on(filled_database, tmp_path).open(AS_OF) as reading:
        before = all_entries(reading)
    with source_on(filled_database, tmp_path).open(AS_OF) as reading:
        with psycopg.connect(filled_database, autocommit=True) as other:
            for table in changed:
                other.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
            other.execute("DELETE FROM members")
            other.execute("UPDATE communities SET community_name = 'changed'")
        try:
            assert all_entries(reading) == before
        finally:
            with psycopg.connect(filled_database, autocommit=True) as other:
                for table in changed:
                    other.execute(f"DELETE FROM {table}")
                    other.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
                    other.execute(f"DROP TABLE kept_{table}")


def documented_grants(database: str) -> list[str]:
    """Return the documented statements that create the role, for a database of this name."""
    page = (Path(__file__).parents[3] / "docs/how-to/postgresql-source.md").read_text("utf-8")
    block = re.search(r"```sql\n(CREATE ROLE.*?)```", page, re.DOTALL)
    assert block
    return [part.replace("DATABASE platform", f"DATABASE {database}") for part in block[1].split(";") if part.strip()]


@pytest.fixture
def exporter(postgresql_server: PostgreSQLServer, filled_database: str) -> Iterator[str]:
    """The URL of the database for the documented role."""
    database = filled_database.rsplit("/", 1)[1]
    postgresql_server.execute(
        "REVOKE ALL ON SCHEMA public FROM PUBLIC", *documented_grants(database), database=database
    )
    yield postgresql_server.url(database, user="exporter")
    postgresql_server.execute(
        "GRANT USAGE ON SCHEMA public TO PUBLIC", "DROP OWNED BY exporter", "DROP ROLE exporter", database=database
    )


def test_documented_role_is_sufficient(exporter: str, tmp_path: Path) -> None:
    with source_on(exporter, tmp_path).open(AS_OF) as reading:
        reading.check()
        assert all_entries(reading)
        reading.confirm_unchanged()


def test_missing_privileges_are_listed_as_grants(
    postgresql_server: PostgreSQLServer, exporter: str, tmp_path: Path
) -> None:
    database = exporter.rsplit("/", 1)[1]
    postgresql_server.execute("REVOKE SELECT ON terms, link_hits FROM exporter", database=database)
    with source_on(exporter, tmp_path).open(AS_OF) as reading, pytest.raises(SourceError) as caught:
        reading.check()
    lines = caught.value.message.splitlines()
    assert [line.strip() for line in lines[1:]] == [
        "GRANT SELECT ON link_hits TO exporter;",
        "GRANT SELECT ON terms TO exporter;",
    ]
    # The listed statements are sufficient.
    postgresql_server.execute(*lines[1:], "REVOKE USAGE ON SCHEMA public FROM exporter", database=database)
    with source_on(exporter, tmp_path).open(AS_OF) as reading, pytest.raises(SourceError) as caught:
        reading.check()
    lines = caught.value.message.splitlines()
    assert [line.strip() for line in lines[1:]] == ["GRANT USAGE ON SCHEMA public TO exporter;"]
    postgresql_server.execute(*lines[1:], database=database)
    with source_on(exporter, tmp_path).open(AS_OF) as reading:
        reading.check()


@pytest.mark.release
def test_privilege_on_the_columns_read_is_sufficient(
    postgresql_server: PostgreSQLServer, exporter: str, tmp_path: Path
) -> None:
    database = exporter.rsplit("/", 1)[1]
    columns = next(table.columns for table in SOURCE_TABLES if table.name == "members")
    names = ", ".join(column.name for column in columns)
    fewer = names.replace(" email,", "")
    postgresql_server.execute(
        "ALTER TABLE members ADD COLUMN passport text",
        "REVOKE SELECT ON members FROM exporter",
        f"GRANT SELECT ({fewer}) ON members TO exporter",
        database=database,
    )
    try:
        with source_on(exporter, tmp_path).open(AS_OF) as reading, pytest.raises(SourceError) as caught:
            reading.check()
        lines = [line.strip() for line in caught.value.message.splitlines()[1:]]
        assert lines == ["GRANT SELECT (email) ON members TO exporter;"]
        postgresql_server.execute(*lines, database=database)
        with source_on(exporter, tmp_path).open(AS_OF) as reading:
            reading.check()
            assert all_entries(reading)
    finally:
        postgresql_server.execute("ALTER TABLE members DROP COLUMN passport", database=database)


@pytest.mark.parametrize("shown", [False, True], ids=["table", "view"])
def test_row_level_security_is_refused(
    postgresql_server: PostgreSQLServer, exporter: str, tmp_path: Path, *, shown: bool
) -> None:
    """A policy on a table, or on a table behind a view, must not silently remove rows from files."""
    database = exporter.rsplit("/", 1)[1]
    own = (
        "CREATE SCHEMA seen",
        "CREATE VIEW seen.members WITH (security_invoker) AS SELECT * FROM public.members",
        "GRANT USAGE ON SCHEMA seen TO exporter",
        "GRANT SELECT ON seen.members TO exporter",
    )
    postgresql_server.execute("ALTER TABLE members ENABLE ROW LEVEL SECURITY", *own, database=database)
    location = f"{exporter}?options=-csearch_path%3D{'seen,' if shown else ''}public"
    try:
        with source_on(location, tmp_path).open(AS_OF) as reading, pytest.raises(SourceError) as caught:
            reading.check()
        assert "row-level security policy" in caught.value.message if shown else "BYPASSRLS" in caught.value.message
        postgresql_server.execute("ALTER ROLE exporter BYPASSRLS")
        with source_on(location, tmp_path).open(AS_OF) as reading:
            reading.check()
            assert all_entries(reading)
    finally:
        postgresql_server.execute(
            "DROP SCHEMA seen CASCADE", "ALTER TABLE members DISABLE ROW LEVEL SECURITY", database=database
        )


def test_role_with_short_timeouts_keeps_its_snapshot(
    postgresql_server: PostgreSQLServer, exporter: str, tmp_path: Path
) -> None:
    postgresql_server.execute("ALTER ROLE exporter SET idle_in_transaction_session_timeout = '1s'")
    # PostgreSQL 17 introduced this setting.
    with suppress(psycopg.errors.UndefinedObject):
        postgresql_server.execute("ALTER ROLE exporter SET transaction_timeout = '1500ms'")
    with source_on(exporter, tmp_path).open(AS_OF) as reading:
        reading.rows_query("communities")
        time.sleep(1.6)
        reading.rows_query("campaigns")
        reading.confirm_unchanged()


@pytest.mark.release
def test_views_with_other_types_produce_the_same_files(filled_database: str, tmp_path: Path) -> None:
    """Identifiers as upper-case text, counts as numeric, instants without a zone, in another schema."""
    shapes = {
        ColumnType.UUID: "upper({0}::text)",
        ColumnType.TEXT: "{0}::varchar",
        ColumnType.BIGINT: "{0}::numeric",
        ColumnType.TIMESTAMP: "{0} AT TIME ZONE 'UTC'",
    }
    with psycopg.connect(filled_database, autocommit=True) as server:
        server.execute("DROP SCHEMA IF EXISTS other CASCADE")
        server.execute("CREATE SCHEMA other")
        for table in SOURCE_TABLES:
            columns = ", ".join(f"{shapes.get(c.type, '{0}').format(c.name)} AS {c.name}" for c in table.columns)
            server.execute(f"CREATE VIEW other.{table.name} AS SELECT {columns} FROM public.{table.name}".encode())
    with source_on(filled_database, tmp_path).open(AS_OF) as reading:
        expected = all_entries(reading)
    with source_on(f"{filled_database}?options=-csearch_path%3Dother", tmp_path).open(AS_OF) as reading:
        reading.check()
        assert reading.input_bytes() == 0, "an estimate of the planner does not refuse a first run"
        assert all_entries(reading) == expected


def test_size_counts_the_partitions_of_a_table(postgresql_server: PostgreSQLServer) -> None:
    database = postgresql_server.fresh_database()
    with psycopg.connect(postgresql_server.url(database), autocommit=True) as server:
        server.execute("CREATE TABLE members (leader_id uuid, city text) PARTITION BY HASH (leader_id)")
        server.execute("CREATE TABLE members_0 PARTITION OF members FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
        server.execute("INSERT INTO members SELECT gen_random_uuid(), repeat('x', 100) FROM generate_series(1, 9000)")
        assert ServerTables(server).size_bytes() > 900_000
    postgresql_server.drop(database)


def test_check_opens_the_driver_of_the_run(
    filled_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_snapshot, "_adbc_uri", lambda location: f"{location}?sslmode=unknown")
    with (
        source_on(filled_database, tmp_path).open(AS_OF) as reading,
        pytest.raises(SourceUnavailable, match="sslmode"),
    ):
        reading.check()


def test_every_connection_uses_the_tls_settings(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    own_certificate(tmp_path / "tls.pem")
    own_certificate(tmp_path / "other.pem")
    with tls_in_front_of(postgresql_server.port, tmp_path / "tls.pem") as (port, opened):
        address = filled_database.replace(f":{postgresql_server.port}/", f":{port}/")
        trusted = f"{address}?sslmode=verify-full&sslrootcert={tmp_path}/tls.pem"
        with source_on(trusted, tmp_path).open(AS_OF) as reading:
            reading.rows_query("members")
        # The driver opens short connections to query the server's types.
        assert len(opened) >= 3
        known = len(opened)
        untrusted = f"{address}?sslmode=verify-full&sslrootcert={tmp_path}/other.pem"
        with pytest.raises(SourceUnavailable, match="certificate"), source_on(untrusted, tmp_path).open(AS_OF):
            pass
        # Streams use another driver.
        with open_transaction(trusted, timeout_seconds=0) as (connection, server_watch):
            known += 1
            snapshot = ServerSnapshot(untrusted, connection, server_watch, "none", timeout_seconds=0)
            with pytest.raises(SourceUnavailable, match="certificate"), snapshot.stream("SELECT 1"):
                pass
        assert len(opened) == known


@contextmanager
def tls_in_front_of(server_port: int, certificate: Path) -> Iterator[tuple[int, list[str]]]:
    """Terminate TLS in front of a server built without it. Yields the port and the TLS versions of connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    opened: list[str] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(8) == bytes.fromhex("0000000804d2162f"), "an SSLRequest comes first"
        writer.write(b"S")
        try:
            await writer.start_tls(context)
        except OSError:
            writer.close()
            return
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", server_port)
        opened.append(writer.get_extra_info("ssl_object").version())
        await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))

    async def end(server: asyncio.Server) -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.05)  # transports close in a later turn of the loop

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0), loop).result(30)
        try:
            yield server.sockets[0].getsockname()[1], opened
        finally:
            asyncio.run_coroutine_threadsafe(end(server), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def test_parallel_workers_can_be_switched_off(filled_database: str) -> None:
    setting = "max_parallel_workers_per_gather"
    with psycopg.connect(filled_database) as server:
        usual = server.execute(f"SHOW {setting}".encode()).fetchall()
    with open_snapshot(filled_database, timeout_seconds=0) as snapshot:
        found = []
        for parallel_workers in (False, True):
            query = f"SELECT current_setting('{setting}')"
            with snapshot.stream(query, parallel_workers=parallel_workers) as rows:
                found.append(nanoarrow.ArrayStream(rows).read_all().to_pylist())
    assert [tuple(row.values()) for rows in found for row in rows] == [("0",), *usual]


def test_rows_without_an_identifier_are_read(postgresql_url: str, parquet: Path, tmp_path: Path) -> None:
    fill_tables(postgresql_url, parquet)
    with psycopg.connect(postgresql_url, autocommit=True) as server:
        server.execute("INSERT INTO members (leader_id) SELECT leader_id FROM leaders")
        count = server.execute("SELECT count(*) FROM members").fetchall()
    with source_on(postgresql_url, tmp_path).open(AS_OF) as reading, closing(reading.cursor()) as cursor:
        assert cursor.execute(f"SELECT count(*) FROM ({reading.rows_query('members')})").fetchall() == count


def test_missing_tables_and_columns_are_named(postgresql_url: str, tmp_path: Path) -> None:
    with psycopg.connect(postgresql_url, autocommit=True) as server:
        server.execute("CREATE TABLE leaders (leader_id integer, leader_name text)")
    with (
        source_on(postgresql_url, tmp_path).open(AS_OF) as reading,
        pytest.raises(SourceError) as caught,
    ):
        reading.check()
    for part in (
        "table members is missing",
        "column leaders.leader_id is integer, expected uuid",
        "column leaders.parent_leader_id is missing",
    ):
        assert part in caught.value.message


def test_invalid_models_are_named(filled_database: str, tmp_path: Path) -> None:
    own = Model("communities", "SELECT 1 AS one", "mine.sql")
    other = Model("members", "SELECT nonsense FROM members", "other.sql")
    with source_on(filled_database, tmp_path, own, other).open(AS_OF) as reading, pytest.raises(SourceError) as caught:
        reading.check()
    assert "mine.sql: column one is not part of communities" in caught.value.message
    assert "mine.sql: column COMMUNITY_ID is missing" in caught.value.message
    assert "other.sql: column" in caught.value.message


def test_own_model_runs_in_the_dialect_of_postgresql(filled_database: str, tmp_path: Path) -> None:
    shipped = load_models()["communities"].sql
    own = shipped.replace("c.community_name AS", "(jsonb_build_object('half', 7 / 2) ->> 'half') || '%' || E'\\t' AS")
    assert own != shipped
    with source_on(filled_database, tmp_path, Model("communities", own, "mine.sql")).open(AS_OF) as reading:
        reading.check()
        names = reading.cursor().execute(f'SELECT DISTINCT "COMMUNITY_NAME" FROM ({reading.rows_query("communities")})')
        assert names.fetchall() == [("3%\t",)]


@pytest.mark.release
def test_own_model_replaces_the_requirement_of_its_table(
    make_postgresql_url: Callable[[], str], parquet: Path, tmp_path: Path
) -> None:
    database = make_postgresql_url()
    fill_tables(database, parquet)
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE terms RENAME TO wordings")
        connection.execute("ALTER TABLE member_term_accepts RENAME accepted_at TO accepted")
        connection.execute("DROP TABLE link_hits")
    shipped = load_models()
    accepts = shipped["member_term_accepts"].sql.replace("JOIN terms", "JOIN wordings")
    accepts = accepts.replace("accepted_at AS", "accepted AS").replace("a.accepted_at", "a.accepted")
    links = shipped["campaign_links"].sql.replace(
        "FROM link_hits", "FROM (SELECT NULL::uuid AS link_id, :as_of AS hit_at) x"
    )
    own = (Model("member_term_accepts", accepts, "mine.sql"), Model("campaign_links", links, "mine.sql"))
    with source_on(database, tmp_path, *own).open(AS_OF) as reading:
        reading.check()
        all_entries(reading)
    with (
        source_on(database, tmp_path).open(AS_OF) as reading,
        pytest.raises(SourceError, match="table terms is missing"),
    ):
        reading.check()


def test_socket_is_accepted_as_host(postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path) -> None:
    with psycopg.connect(filled_database) as connection:
        row = connection.execute("SELECT current_setting('unix_socket_directories'), current_user").fetchone()
    assert row is not None
    database = filled_database.rpartition("/")[2]
    url = f"postgresql:///{database}?host={row[0]}&port={postgresql_server.port}&user={row[1]}"
    with source_on(url, tmp_path).open(AS_OF) as reading:
        reading.check()
        assert all_entries(reading)


def test_statement_timeout_names_the_setting(filled_database: str, tmp_path: Path) -> None:
    shipped = load_models()["communities"].sql
    slow = Model("communities", shipped.replace("FROM communities", "FROM pg_sleep(60), communities"), "slow.sql")
    assert slow.sql != shipped
    source = source_on(filled_database, tmp_path, slow, statement_timeout_seconds=1)
    with (
        source.open(AS_OF) as reading,
        pytest.raises(SourceError, match=r"source\.statement_timeout") as caught,
    ):
        reading.rows_query("communities")
    assert not isinstance(caught.value, SourceUnavailable)
    assert not caught.value.transient


def test_unreachable_server_is_transient(tmp_path: Path) -> None:
    source = source_on("postgresql://nobody@127.0.0.1:1/none", tmp_path)
    with pytest.raises(SourceUnavailable, match=r"^source\.location \(PostgreSQL\): "), source.open(AS_OF):
        pass


def test_directory_query_returns_rows_by_column_name(filled_database: str, tmp_path: Path) -> None:
    rows = source_on(filled_database, tmp_path).query("SELECT 1 AS one, 'x' AS other")
    assert rows == [{"one": 1, "other": "x"}]
    with pytest.raises(SourceError, match="returns a column twice: status"):
        source_on(filled_database, tmp_path).query("SELECT 'inactive' AS status, 'active' AS \"STATUS\"")


def test_infinity_in_a_directory_query_is_permanent(filled_database: str, tmp_path: Path) -> None:
    query = "SELECT 'infinity'::timestamptz AS expires_at, 'Ana' AS first_name"
    with pytest.raises(SourceError, match=r"\[directory\].* column expires_at is outside the years") as caught:
        source_on(filled_database, tmp_path).query(query)
    assert not caught.value.transient


def test_doctor_stops_an_endless_model_and_runs_the_others(filled_database: str, tmp_path: Path) -> None:
    own = {"campaigns": ENDLESS_MODEL, "members": replace(load_models()["members"], shipped=False)}
    source = replace(source_on(filled_database, tmp_path), models={**load_models(), **own})
    assert run_own_models(source, AS_OF, 2) == "2 models run for up to 1,000 rows. Stopped after 2.0 s: endless.sql"
    failing = replace(own["members"], sql="SELECT 1 / (COUNT(*) - COUNT(*)) AS n FROM members")
    source = replace(source, models={**load_models(), "members": failing})
    with pytest.raises(OperatorError, match=r"members\.sql \(PostgreSQL\): division by zero"):
        run_own_models(source, AS_OF)


@pytest.mark.release
def test_rows_are_accounted_for_as_in_duckdb(make_postgresql_url: Callable[[], str], tmp_path: Path) -> None:
    folder = tmp_path / "platform"
    make_platform(folder, PlatformSizes(leaders=8, members=600, messages=3000), as_of=AS_OF)
    add_faults(folder, AS_OF, 7)
    url = make_postgresql_url()
    fill_tables(url, folder)
    embedded = duckdb_source(folder, tmp_path / "spill")
    with embedded.open(AS_OF) as reading:
        expected = accounted_for(reading, "duckdb", AS_OF)
    with source_on(url, tmp_path / "spill").open(AS_OF) as server_reading:
        found, others = accounted_for(server_reading, "postgresql", AS_OF)
    assert set(found.status.values()) == {"proved"}, found.tables
    assert (found, others) == expected
