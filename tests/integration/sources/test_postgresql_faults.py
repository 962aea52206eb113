"""PostgreSQL that goes away while it is read: nothing of half a stream is kept, and what is served stays."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from daybreak.catalogue.models import Model, load_models
from daybreak.demo.platform import make_platform
from daybreak.domain.errors import SourceError, SourceUnavailable
from daybreak.domain.snapshot import SnapshotState
from daybreak.snapshots.run import run_by_hand
from daybreak.sources.landing import StreamBroken
from daybreak.sources.postgresql import PostgresqlSource
from daybreak.state.migrate import migrate
from tests.integration.sources.engines import AS_OF
from tests.parts.postgresql import SERVER_SETTINGS, PostgreSQLServer, running_postgresql
from tests.parts.postgresql_tables import fill_tables
from tests.parts.waiting import wait_until
from tests.small_platform import state_url, workshop_in

_GATE = 7


@pytest.fixture(scope="module")
def filled_database(postgresql_server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("platform")
    make_platform(folder, leaders=5, members=3000, messages=2000, as_of=AS_OF)
    database = postgresql_server.fresh_database()
    fill_tables(postgresql_server.url(database), folder)
    yield database
    postgresql_server.drop(database)


@pytest.fixture
def replica(postgresql_server: PostgreSQLServer, filled_database: str) -> Iterator[PostgreSQLServer]:
    """A streaming replica that does not wait for its readers."""
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
    """Half of the Members, and after them the others, who wait at a gate."""
    members = load_models()["members"].sql
    first = "CAST(\"MEMBER_ID\" AS TEXT) < '8'"
    return (
        f"SELECT * FROM ({members}) AS sent WHERE {first} UNION ALL SELECT waiting.* FROM ({members}) AS waiting, "
        f"(SELECT pg_advisory_lock_shared({_GATE}) AS held OFFSET 0) AS gate "
        f"WHERE CAST(gate.held AS TEXT) IS NOT NULL AND NOT {first}"
    )


@contextmanager
def closed_gate(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url, autocommit=True) as keeper:
        keeper.execute(f"SELECT pg_advisory_lock({_GATE})".encode())
        yield keeper


def waiting_at_gate(keeper: psycopg.Connection[tuple[object, ...]]) -> list[int]:
    rows = keeper.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'daybreak' AND wait_event = 'advisory'"
    ).fetchall()
    return [int(str(pid)) for (pid,) in rows]


def test_a_stream_whose_back_end_is_ended_leaves_nothing(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    """The other one, which would wait at the gate for ever, is cancelled."""
    url = postgresql_server.url(filled_database)
    source = source_on(url, tmp_path, gated_members())
    with closed_gate(url) as keeper, source.open(AS_OF) as reading, ThreadPoolExecutor(1) as pool:
        landing = pool.submit(reading.rows, "members")
        first, _second = wait_until(lambda: (pids := waiting_at_gate(keeper))[1:] and pids, what="both streams")
        keeper.execute("SELECT pg_terminate_backend(%s)", [first])
        with pytest.raises(SourceUnavailable, match="terminating connection"):
            landing.result()
        with reading.cursor() as cursor:
            assert cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []
        # The snapshot stands.
        assert reading.rows("communities")


def failing_members(fault: str) -> str:
    """All Members, and after them an error."""
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
    ],
)
def test_an_error_in_mid_stream_that_would_come_again_ends_the_run(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path, fault: str, sqlstate: str
) -> None:
    source = source_on(postgresql_server.url(filled_database), tmp_path, failing_members(fault))
    with source.open(AS_OF) as reading, pytest.raises(SourceError) as caught:
        reading.rows("members")
    assert not isinstance(caught.value, SourceUnavailable)
    assert not caught.value.transient
    cause = caught.value.__cause__
    assert isinstance(cause, StreamBroken)
    assert cause.sqlstate == sqlstate


def test_who_changes_a_table_is_not_held_up_for_good(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    """They wait for the reading, whose streams wait for them: the reading gives way, and may be tried again."""
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
            with pytest.raises(SourceUnavailable, match="lock timeout"):
                reading.rows("member_term_accepts")
        changing.result()


@pytest.mark.parametrize(("function", "sqlstate"), [("pg_cancel_backend", "57014"), ("pg_terminate_backend", "57P01")])
def test_a_stream_that_somebody_ends_may_be_tried_again(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path, function: str, sqlstate: str
) -> None:
    """Whoever cancels a statement gives it the same code as its timeout does."""
    url = postgresql_server.url(filled_database)
    source = replace(source_on(url, tmp_path, gated_members()), statement_timeout_seconds=3600)
    with closed_gate(url) as keeper, source.open(AS_OF) as reading, ThreadPoolExecutor(1) as pool:
        landing = pool.submit(reading.rows, "members")
        first, _second = wait_until(lambda: (pids := waiting_at_gate(keeper))[1:] and pids, what="both streams")
        keeper.execute(f"SELECT {function}(%s)".encode(), [first])
        with pytest.raises(SourceUnavailable) as caught:
            landing.result()
    assert caught.value.transient
    cause = caught.value.__cause__
    assert isinstance(cause, StreamBroken)
    assert cause.sqlstate == sqlstate


def test_a_stream_over_its_time_is_not_tried_again(
    postgresql_server: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    url = postgresql_server.url(filled_database)
    source = replace(source_on(url, tmp_path, gated_members()), statement_timeout_seconds=1)
    with (
        closed_gate(url),
        source.open(AS_OF) as reading,
        pytest.raises(SourceError, match=r"source\.statement_timeout") as caught,
    ):
        reading.rows("members")
    assert not caught.value.transient
    cause = caught.value.__cause__
    assert isinstance(cause, StreamBroken)
    assert cause.sqlstate == "57014"


def test_a_server_that_stops_at_once_never_yields_a_published_file(
    replica: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    migrate(state_url(tmp_path))
    url = replica.url(filled_database)
    shop = workshop_in(tmp_path, source=source_on(url, tmp_path / "spill"))
    shop = replace(shop, plan=replace(shop.plan, attempts=1))
    try:
        served = run_by_hand(shop, as_of=AS_OF)
        assert served.state is SnapshotState.PUBLISHED
        files = set((tmp_path / "files").rglob("*.gz"))
        cut = replace(shop, source=source_on(url, tmp_path / "spill", gated_members()))
        with closed_gate(url) as keeper, ThreadPoolExecutor(1) as pool:
            run = pool.submit(run_by_hand, cut, as_of=AS_OF, full=True)
            wait_until(lambda: len(waiting_at_gate(keeper)) == 2, what="both streams")
            assert set((tmp_path / "files").rglob("*.gz")) > files, "resources before it were written"
            replica.program.stop(signal.SIGQUIT)
            with pytest.raises(SourceUnavailable):
                run.result()
        with pytest.raises(SourceUnavailable):
            run_by_hand(shop, as_of=AS_OF, full=True)
        assert set((tmp_path / "files").rglob("*.gz")) == files
        current = shop.state.read(lambda stores: stores.snapshots.current())
        assert current is not None
        assert current.snapshot_id == served.snapshot_id
        history = shop.state.read(lambda stores: stores.snapshots.recent())
        assert [one.state for one in history[:2]] == [SnapshotState.FAILED, SnapshotState.FAILED]
    finally:
        shop.state.close()


def test_a_reading_that_the_replica_cancels_is_tried_again(
    postgresql_server: PostgreSQLServer, replica: PostgreSQLServer, filled_database: str, tmp_path: Path
) -> None:
    """What the primary cleans up is needed by the snapshot: the replica cancels whoever holds it."""
    migrate(state_url(tmp_path))
    url = replica.url(filled_database)
    shop = workshop_in(tmp_path, source=source_on(url, tmp_path / "spill", gated_members()))
    try:
        with closed_gate(url) as keeper, ThreadPoolExecutor(1) as pool:
            run = pool.submit(run_by_hand, shop, as_of=AS_OF)
            wait_until(lambda: len(waiting_at_gate(keeper)) == 2, what="both streams")
            before = waiting_at_gate(keeper)
            postgresql_server.execute(
                "CREATE TABLE doomed AS SELECT generate_series(1, 1000)",
                "DELETE FROM doomed",
                "VACUUM doomed",
                "DROP TABLE doomed",
                database=filled_database,
            )
            again = wait_until(
                lambda: (pids := waiting_at_gate(keeper)) and not {*pids} & {*before} and len(pids) == 2,
                what="the next try",
            )
            assert again
            keeper.execute(f"SELECT pg_advisory_unlock({_GATE})".encode())
            assert run.result().state is SnapshotState.PUBLISHED
        failed = shop.state.read(lambda stores: stores.snapshots.recent())[-1]
        assert failed.state is SnapshotState.FAILED
        assert "conflict with recovery" in str(failed.failure)
    finally:
        shop.state.close()
