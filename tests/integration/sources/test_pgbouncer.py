"""A PostgreSQL source behind PgBouncer in transaction mode, and a builder that is stopped."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import RESOURCES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.errors import SourceUnavailable
from daybreak.sources.postgresql import server_snapshot
from daybreak.sources.postgresql.server_snapshot import open_snapshot, server_faults
from daybreak.sources.postgresql.source import PostgresqlSource
from tests.parts.export_rows import AS_OF
from tests.parts.pgbouncer import PgBouncer
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.postgresql_tables import fill_tables
from tests.parts.waiting import wait_until


@pytest.fixture(scope="module")
def filled_database(postgresql_server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("platform")
    make_platform(folder, PlatformSizes(leaders=3, members=200, messages=300), as_of=AS_OF)
    database = postgresql_server.fresh_database()
    fill_tables(postgresql_server.url(database), folder)
    yield database
    postgresql_server.drop(database)


def rows_by_resource(url: str, folder: Path) -> dict[str, list[tuple[object, ...]]]:
    source = PostgresqlSource(url, load_models(), memory_bytes=200_000_000, threads=2, temp_dir=folder)
    assert source.query("SELECT 1 AS one") == [{"one": 1}]
    with source.open(AS_OF) as reading, closing(reading.cursor()) as cursor:
        reading.check()
        found = {
            resource.name: sorted(cursor.execute(reading.rows_query(resource.name)).fetchall(), key=str)
            for resource in RESOURCES
        }
        reading.confirm_unchanged()
        return found


def test_source_behind_a_pooler(
    pgbouncer: PgBouncer, postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    """The pool has two server connections: one holds the snapshot, the streams take turns with the other."""
    direct = postgresql_server.url(filled_database)
    assert rows_by_resource(pgbouncer.url(direct), tmp_path) == rows_by_resource(direct, tmp_path)
    assert pgbouncer.session_settings(filled_database) == [{}, {}]


def test_snapshot_of_a_stopped_builder_ends(
    postgresql_server: PostgreSQLServer, filled_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No heartbeat arrives, as after SIGSTOP. The server ends the transaction, which would block vacuum."""
    monkeypatch.setattr(server_snapshot, "_HEARTBEAT_SECONDS", 3600)
    monkeypatch.setattr(server_snapshot, "_MAX_IDLE_SECONDS", 0.2)
    with open_snapshot(postgresql_server.url(filled_database), timeout_seconds=0) as snapshot:
        pid = snapshot.keeper.info.backend_pid
        wait_until(lambda: pid not in postgresql_server.backends(filled_database), what="the end of the transaction")
        with pytest.raises(SourceUnavailable, match="idle"), server_faults("The source"):
            snapshot.keeper.execute("SELECT 1")
        with pytest.raises(SourceUnavailable, match="ended the transaction of the run"), snapshot.stream("SELECT 1"):
            pass


def test_heartbeat_keeps_a_quiet_snapshot(
    postgresql_server: PostgreSQLServer, filled_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_snapshot, "_HEARTBEAT_SECONDS", 0.02)
    with (
        open_snapshot(postgresql_server.url(filled_database), timeout_seconds=0) as snapshot,
        psycopg.connect(postgresql_server.url(filled_database), autocommit=True) as other,
    ):
        pid = snapshot.keeper.info.backend_pid
        seen = set()

        def has_beaten() -> bool:
            query = "SELECT query_start FROM pg_stat_activity WHERE pid = %s AND query = 'SELECT 1'"
            seen.update(other.execute(query, [pid]).fetchall())
            return len(seen) > 3

        wait_until(has_beaten, what="heartbeats")
