"""Failures of a PostgreSQL source during a read: partial streams are discarded, published files are unchanged."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from daybreak.catalogue.models import Model, load_models
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.errors import SourceError, SourceUnavailable, Unavailable
from daybreak.domain.snapshot import SnapshotState
from daybreak.snapshots.run import run_manually
from daybreak.sources.postgresql.source import PostgresqlSource
from daybreak.sources.staging import StreamFailed
from daybreak.state.database import open_state
from tests.parts.export_rows import AS_OF
from tests.parts.moved_clock import MovedClock
from tests.parts.postgresql import SERVER_SETTINGS, PostgreSQLServer, running_postgresql
from tests.parts.postgresql_tables import fill_tables
from tests.parts.waiting import wait_until
from tests.small_platform import context_in, create_state, open_context

_GATE = 7
_MEASURE = """
import sys, psycopg
from datetime import UTC, datetime
from daybreak.sources.postgresql.source import replay_lag
with psycopg.connect(sys.argv[1]) as connection:
    print(replay_lag(connection, datetime.now(UTC)).total_seconds())
"""


@pytest.fixture(scope="module")
def filled_database(postgresql_server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("platform")
    make_platform(folder, PlatformSizes(leaders=5, members=3000, messages=2000), as_of=AS_OF)
    database = postgresql_server.fresh_database()
    fill_tables(postgresql_server.url(database), folder)
    yield database
    postgresql_server.drop(database)


@pytest.fixture
def replica(postgresql_server: PostgreSQLServer, filled_database: str) -> Iterator[PostgreSQLServer]:
    """A streaming replica that immediately cancels queries which conflict with recovery."""
    del filled_database
    settings = {**SERVER_SETTINGS, "max_standby_streaming_delay": "0", "hot_standby_feedback": "off"}
    with running_postgresql(settings, replica_of=postgresql_server) as server:
        yield server


def source_on(url: str, temp_dir: Path, members: str | None = None) -> PostgresqlSource:
    models = dict(load_models())
    if members is not None:
        models["members"] = Model("members", members, "members.sql")
    return PostgresqlSource(url, models, memory_bytes=200_000_000, threads=2, temp_dir=temp_dir)


def gated_members() -> str:
    """Return a model that sends half of the Members, waits for the gate, and then sends the others."""
    members = load_models()["members"].sql
    first = "CAST(\"MEMBER_ID\" AS TEXT) < '8'"
    return (
        f"SELECT * FROM ({members}) AS sent WHERE {first} UNION ALL SELECT waiting.* FROM ({members}) AS waiting, "
        f"(SELECT pg_advisory_lock_shared({_GATE}) AS held OFFSET 0) AS gate "
        f"WHERE CAST(gate.held AS TEXT) IS NOT NULL AND NOT {first}"
    )


@contextmanager
def closed_gate(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Hold the advisory lock that the model of `gated_members` waits for."""
    with psycopg.connect(url, autocommit=True) as lock_holder:
        lock_holder.execute(f"SELECT pg_advisory_lock({_GATE})".encode())
        yield lock_holder


def waiting_at_gate(lock_holder: psycopg.Connection[tuple[object, ...]]) -> list[int]:
    """Return the process ids of streams that wait for the gate."""
    rows = lock_holder.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'daybreak' AND wait_event = 'advisory'"
    ).fetchall()
    return [int(str(pid)) for (pid,) in rows]


def test_terminated_backend_leaves_no_rows(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    """The other stream, which waits at the gate, is also cancelled."""
    url = postgresql_server.url(filled_database)
    source = source_on(url, tmp_path, gated_members())
    with closed_gate(url) as lock_holder, source.open(AS_OF) as reading, ThreadPoolExecutor(1) as pool:
        loading = pool.submit(reading.rows_query, "members")
        first, _second = wait_until(lambda: (pids := waiting_at_gate(lock_holder))[1:] and pids, what="both streams")
        lock_holder.execute("SELECT pg_terminate_backend(%s)", [first])
        with pytest.raises(SourceUnavailable, match="terminating connection"):
            loading.result()
        with reading.cursor() as cursor:
            assert cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []
        # The snapshot is still valid.
        assert reading.rows_query("communities")


def failing_members(fault: str) -> str:
    """Return a model that sends all Members and then fails."""
    members = load_models()["members"].sql
    return (
        f"SELECT * FROM ({members}) AS sent UNION ALL SELECT failing.* FROM ({members}) AS failing, "
        f"(SELECT {fault} AS fault OFFSET 0) AS never WHERE CAST(never.fault AS TEXT) IS NOT NULL"
    )


@pytest.mark.parametrize(
    ("fault", "sqlstate"),
    [
        ("CAST(random() AS INTEGER) / (CAST(random() AS INTEGER) * 0)", "22012"),
        ("CAST('not a number' || CAST(random() AS TEXT) AS INTEGER)", "22P02"),
        ("refuse('not a number' || CAST(random() AS TEXT))", "P0001"),
    ],
)
def test_data_error_mid_stream_is_not_transient(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path, fault: str, sqlstate: str
) -> None:
    postgresql_server.execute(
        "CREATE OR REPLACE FUNCTION refuse(cell text) RETURNS text LANGUAGE plpgsql "
        "AS $$ BEGIN RAISE EXCEPTION 'Member % is invalid', cell; END $$",
        database=filled_database,
    )
    source = source_on(postgresql_server.url(filled_database), tmp_path, failing_members(fault))
    with source.open(AS_OF) as reading, pytest.raises(SourceError) as caught:
        reading.rows_query("members")
    assert not isinstance(caught.value, SourceUnavailable)
    assert not caught.value.transient
    cause = caught.value.__cause__
    assert isinstance(cause, StreamFailed)
    assert cause.sqlstate == sqlstate
    assert caught.value.message.endswith(f"(SQLSTATE {sqlstate})")
    assert "not a number" not in caught.value.message, "a value of a row"


@pytest.mark.release
def test_reading_yields_to_a_table_change(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    """The table change waits for the reading, and a stream of the reading waits for the change: a lock timeout."""
    url = postgresql_server.url(filled_database)

    def change() -> None:
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("ALTER TABLE terms ADD COLUMN IF NOT EXISTS note text")

    def waits() -> bool:
        with psycopg.connect(url) as looking:
            waiting = "SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted"
            return looking.execute(waiting).fetchone() is not None

    with ThreadPoolExecutor(1) as pool:
        with source_on(url, tmp_path).open(AS_OF) as reading:
            reading.check()
            changing = pool.submit(change)
            wait_until(waits, what="the change to wait for the reading")
            with pytest.raises(SourceUnavailable, match=r"lock timeout\. Another session has locked"):
                reading.rows_query("member_term_accepts")
        changing.result()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("terms", ["TRUNCATE terms"]),
        ("link_hits", ["ALTER TABLE link_hits ALTER hit_at TYPE timestamptz(3)"]),
        ("terms", ["CREATE TABLE new AS TABLE terms", "DROP TABLE terms", "ALTER TABLE new RENAME TO terms"]),
        ("old", ["TRUNCATE old"]),
        ("new", ["CREATE TABLE new AS TABLE old", "CREATE OR REPLACE VIEW leaders AS TABLE new"]),
    ],
    ids=["truncated", "rewritten", "exchanged", "truncated below a view", "exchanged below a view"],
)
def test_table_that_the_snapshot_no_longer_shows_is_refused(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path, name: str, changes: list[str]
) -> None:
    """The changes are made between the snapshot and the first lock. A snapshot shows such a table without rows."""
    copy = postgresql_server.fresh_database()
    postgresql_server.drop(copy)
    postgresql_server.execute(f"CREATE DATABASE {copy} TEMPLATE {filled_database}")
    postgresql_server.execute("ALTER TABLE leaders RENAME TO old", "CREATE VIEW leaders AS TABLE old", database=copy)
    try:
        with source_on(postgresql_server.url(copy), tmp_path).open(AS_OF) as reading:
            postgresql_server.execute(*changes, "CREATE TABLE other ()", "TRUNCATE other", database=copy)
            with pytest.raises(SourceUnavailable, match=rf"truncated, rewritten or replaced .* rows: {name}\."):
                reading.check()
        with source_on(postgresql_server.url(copy), tmp_path).open(AS_OF) as reading:
            reading.check()
    finally:
        postgresql_server.drop(copy)


def test_idle_connection_that_the_server_closed_is_replaced(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    """As after `idle_session_timeout`. Streams are idle while files are written."""
    idle = "application_name = 'daybreak' AND state = 'idle'"
    with source_on(postgresql_server.url(filled_database), tmp_path).open(AS_OF) as reading:
        reading.check()
        ended = f"SELECT bool_and(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE {idle}"
        assert asked(postgresql_server, ended)
        assert reading.rows_query("members")
        reading.confirm_unchanged()


@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
def test_stream_ended_by_an_operator_is_transient(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path, function: str
) -> None:
    """A cancelled statement has the same SQLSTATE as one over its timeout."""
    url = postgresql_server.url(filled_database)
    source = replace(source_on(url, tmp_path, gated_members()), statement_timeout_seconds=3600)
    with closed_gate(url) as lock_holder, source.open(AS_OF) as reading, ThreadPoolExecutor(1) as pool:
        loading = pool.submit(reading.rows_query, "members")
        first, _second = wait_until(lambda: (pids := waiting_at_gate(lock_holder))[1:] and pids, what="both streams")
        lock_holder.execute(f"SELECT {function}(%s)".encode(), [first])
        lock_holder.execute(f"SELECT pg_advisory_unlock({_GATE})".encode())
        with pytest.raises(SourceUnavailable) as caught:
            loading.result()
    assert caught.value.transient
    assert isinstance(caught.value.__cause__, StreamFailed)


def test_server_stopped_mid_read_publishes_nothing(
    replica: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    create_state(tmp_path)
    url = replica.url(filled_database)
    context = context_in(tmp_path, source=source_on(url, tmp_path / "spill"))
    context = replace(context, timings=replace(context.timings, attempts=1))
    try:
        served = run_manually(context, as_of=AS_OF)
        assert served.state is SnapshotState.PUBLISHED
        files = set((tmp_path / "files").rglob("*.pack"))
        cut = replace(context, source=source_on(url, tmp_path / "spill", gated_members()))
        with closed_gate(url) as lock_holder, ThreadPoolExecutor(1) as pool:
            run = pool.submit(run_manually, cut, as_of=AS_OF, full=True)
            wait_until(lambda: len(waiting_at_gate(lock_holder)) == 2, what="both streams")
            assert set((tmp_path / "files").rglob("*.pack")) > files, "earlier resources were written"
            replica.program.stop(signal.SIGQUIT)
            with pytest.raises(SourceUnavailable):
                run.result()
        with pytest.raises(SourceUnavailable):
            run_manually(context, as_of=AS_OF, full=True)
        assert set((tmp_path / "files").rglob("*.pack")) == files
        current = context.state.read(lambda stores: stores.snapshots.current())
        assert current is not None
        assert current.snapshot_id == served.snapshot_id
        history = context.state.read(lambda stores: stores.snapshots.recent())
        assert [one.state for one in history[:2]] == [SnapshotState.FAILED, SnapshotState.FAILED]
    finally:
        context.state.close()


@pytest.mark.release
def test_reading_cancelled_by_a_replica_is_retried(
    postgresql_server: PostgreSQLServer, replica: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    """The snapshot needs rows that the primary vacuums: the replica cancels its readers."""
    create_state(tmp_path)
    url = replica.url(filled_database)
    with open_context(tmp_path, source=source_on(url, tmp_path / "spill", gated_members())) as context:
        with closed_gate(url) as lock_holder, ThreadPoolExecutor(1) as pool:
            run = pool.submit(run_manually, context, as_of=AS_OF)
            wait_until(lambda: len(waiting_at_gate(lock_holder)) == 2, what="both streams")
            before = waiting_at_gate(lock_holder)
            postgresql_server.execute(
                "CREATE TABLE doomed AS SELECT generate_series(1, 1000)",
                "DELETE FROM doomed",
                "VACUUM doomed",
                "DROP TABLE doomed",
                database=filled_database,
            )
            again = wait_until(
                lambda: (pids := waiting_at_gate(lock_holder)) and not {*pids} & {*before} and len(pids) == 2,
                what="the next attempt",
            )
            assert again
            lock_holder.execute(f"SELECT pg_advisory_unlock({_GATE})".encode())
            assert run.result().state is SnapshotState.PUBLISHED
        failed = context.state.read(lambda stores: stores.snapshots.recent())[-1]
        assert failed.state is SnapshotState.FAILED
        assert "conflict with recovery" in str(failed.failure)


def asked(server: PostgreSQLServer, query: str) -> bool:
    """Return the single value of a query."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return bool(row[0])


def lag_with_moved_clock(url: str, folder: Path, offset: str) -> timedelta:
    """Return the lag that a process measures whose clock is ahead or behind."""
    clock = MovedClock(folder / "offset")
    clock.move(offset)
    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE, url], env=os.environ | clock.environment, capture_output=True, check=True
    )
    return timedelta(seconds=float(measured.stdout))


def test_standby_that_stands_still_is_refused(
    replica: PostgreSQLServer, postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    source = source_on(replica.url(filled_database), tmp_path)
    late = datetime.now(UTC) + timedelta(minutes=11)

    def lag_at(as_of: datetime) -> timedelta | None:
        with source.open(as_of) as reading:
            return reading.lag

    postgresql_server.execute("CREATE TABLE earlier ()", database=filled_database)
    wait_until(lambda: asked(replica, "SELECT pg_last_xact_replay_timestamp() IS NOT NULL"), 60, what="replication")
    # An idle primary makes the last transaction old, not the data.
    wait_until(lambda: lag_at(late) == timedelta(0), 60, what="replication")
    replica.execute("SELECT pg_wal_replay_pause()")
    postgresql_server.execute("CREATE TABLE later ()", database=filled_database)
    received = "SELECT pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()"
    wait_until(lambda: asked(replica, received), 60, what="WAL")
    with pytest.raises(SourceUnavailable, match=r"a standby whose data is 1\d minutes .*source\.max_lag allows 10 min"):
        lag_at(late)
    with pytest.raises(SourceUnavailable, match="a standby whose data is"):
        replace(source, max_lag=timedelta(0)).query("SELECT 1 AS one")
    lag = lag_at(datetime.now(UTC))
    assert lag is not None
    assert timedelta(0) < lag < timedelta(minutes=10)
    assert lag_at(AS_OF) == timedelta(0)  # an instant that the standby has reached
    for offset in ("+1h", "-1h"):
        assert (
            timedelta(0) < lag_with_moved_clock(replica.url(filled_database), tmp_path, offset) < timedelta(minutes=10)
        )
    with source_on(postgresql_server.url(filled_database), tmp_path).open(late) as reading:
        assert reading.lag is None


async def test_standby_is_refused_as_state_database(replica: PostgreSQLServer) -> None:
    state = open_state(replica.url())
    with pytest.raises(Unavailable, match=r"in state\.url is a standby"):
        state.read(lambda _stores: None)
    with pytest.raises(Unavailable, match=r"in state\.url is a standby"):
        await state.aread(lambda stores: stores.revoked_keys.kids())
    await state.aclose()


@pytest.mark.release
def test_standby_without_its_primary_is_refused(
    replica: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    source = source_on(replica.url(filled_database), tmp_path)
    replica.execute("ALTER SYSTEM SET primary_conninfo = ''")
    replica.execute("SELECT pg_reload_conf()")
    gone = "SELECT count(*) = 0 FROM pg_stat_wal_receiver"
    wait_until(lambda: asked(replica, gone), 60, what="end of replication")
    with (
        pytest.raises(SourceUnavailable, match="a standby"),
        source.open(datetime.now(UTC) + timedelta(minutes=11)),
    ):
        pass
