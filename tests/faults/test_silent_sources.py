"""A PostgreSQL source that stops answering while its connections stay open: each run ends, and the next one works."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from daybreak.catalogue.models import load_models
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.errors import SourceUnavailable
from daybreak.domain.snapshot import SnapshotState
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.sources.postgresql import watch
from daybreak.sources.postgresql.source import PostgresqlSource
from daybreak.state.database import open_state
from daybreak.state.migrate import migrate
from tests.parts.export_rows import AS_OF
from tests.parts.postgresql import SERVER_SETTINGS, PostgreSQLServer, running_postgresql
from tests.parts.postgresql_tables import fill_tables
from tests.parts.silent_proxy import SilentProxy, silent_proxy
from tests.parts.waiting import wait_until
from tests.small_platform import create_state, open_context

_GATE = 11
_NO_ANSWER = r"does not answer: .*source\.location|source\.location \(PostgreSQL\): .*timeout expired"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgresql_server: PostgreSQLServer) -> Iterator[PostgreSQLServer]:
    """A server of this module, because tests stop its processes. The server of the run shows that one is installed."""
    del postgresql_server
    folder = tmp_path_factory.mktemp("platform")
    make_platform(folder, PlatformSizes(leaders=3, members=300, messages=300), as_of=AS_OF)
    with running_postgresql(SERVER_SETTINGS) as own:
        fill_tables(own.url(), folder)
        yield own


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_CHECK_SECONDS", 0.1)
    monkeypatch.setattr(watch, "_PING_SECONDS", 0.5)
    monkeypatch.setattr(watch, "_MAX_UNANSWERED", 2)


@contextmanager
def context_on(url: str, folder: Path, *, timeout_seconds: int = 3600) -> Iterator[RunContext]:
    create_state(folder)
    source = PostgresqlSource(
        f"{url}{'&' if '?' in url else '?'}connect_timeout=2",
        load_models(),
        memory_bytes=200_000_000,
        threads=2,
        temp_dir=folder / "spill",
        statement_timeout_seconds=timeout_seconds,
    )
    with open_context(folder, source=source) as context:
        yield replace(context, timings=replace(context.timings, attempts=1))


def assert_nothing_is_left(context: RunContext, folder: Path) -> None:
    """Check that the only run has failed, and that its lease and its files are gone."""
    (run,) = context.state.read(lambda stores: stores.snapshots.recent())
    assert run.state is SnapshotState.FAILED
    assert context.state.read(lambda stores: stores.snapshots.current()) is None
    assert [path for path in (folder / "files").rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    assert list((folder / "spill").rglob("*")) == []


def assert_next_run_works(context: RunContext) -> None:
    done = run_day(context, context.clock().date())
    assert done is not None
    assert done.state in {SnapshotState.PUBLISHED, SnapshotState.COMPLETE}


@pytest.fixture
def proxy(server: PostgreSQLServer) -> Iterator[SilentProxy]:
    with silent_proxy(server.host, server.port) as proxy:
        yield proxy


def through(proxy: SilentProxy, server: PostgreSQLServer) -> str:
    return server.url().replace(f":{server.port}/", f":{proxy.port}/")


@pytest.fixture(scope="module")
def parts_of_a_run(server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return how many parts of data a whole run sends to the server."""
    folder = tmp_path_factory.mktemp("whole")
    with silent_proxy(server.host, server.port) as proxy, context_on(through(proxy, server), folder) as context:
        run_manually(context, as_of=AS_OF)
        return proxy.parts


@pytest.mark.parametrize(
    "share", [0.0, 0.5, *(pytest.param(each / 10, marks=pytest.mark.release) for each in (1, 3, 7, 9))]
)
def test_run_ends_when_the_source_falls_silent(
    server: PostgreSQLServer, proxy: SilentProxy, parts_of_a_run: int, share: float, tmp_path: Path
) -> None:
    proxy.silent_after = int(parts_of_a_run * share)
    with context_on(through(proxy, server), tmp_path) as context:
        with pytest.raises(SourceUnavailable, match=_NO_ANSWER):
            run_manually(context, as_of=AS_OF)
        assert proxy.is_silent
        assert_nothing_is_left(context, tmp_path)
        proxy.recover()
        assert_next_run_works(context)


@pytest.mark.parametrize("share", [0.7, *(pytest.param(each, marks=pytest.mark.release) for each in (0.2, 0.9))])
def test_run_ends_when_only_its_connections_fall_silent(
    server: PostgreSQLServer,
    proxy: SilentProxy,
    parts_of_a_run: int,
    share: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New connections work, so only the time of the statement shows that the server does not answer."""
    monkeypatch.setattr(watch, "_MARGIN_SECONDS", 1.0)
    proxy.silent_after, proxy.only_open = int(parts_of_a_run * share), True
    with context_on(through(proxy, server), tmp_path, timeout_seconds=10) as context:
        with pytest.raises(SourceUnavailable, match=r"after source\.statement_timeout \(10 seconds\)"):
            run_manually(context, as_of=AS_OF)
        assert_nothing_is_left(context, tmp_path)
        proxy.recover()
        assert_next_run_works(context)


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Stop processes with SIGSTOP, and continue them at the end."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def gated(server: PostgreSQLServer, table: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Make reads of a table wait until the connection unlocks the gate. It uses a socket that no run uses."""
    select = f"SELECT {table}.* FROM public.{table}, (SELECT pg_advisory_lock_shared({_GATE}) OFFSET 0) AS gate"
    own_socket = f"postgresql://{server.user}@/postgres?host={server.folder.parent / 'run'}&port={server.port}"
    with psycopg.connect(own_socket, autocommit=True) as lock_holder:
        server.execute("CREATE SCHEMA gated", f"CREATE VIEW gated.{table} AS {select}")
        lock_holder.execute(f"SELECT pg_advisory_lock({_GATE})".encode())
        try:
            yield lock_holder
        finally:
            lock_holder.execute("SELECT pg_advisory_unlock_all()")
            server.execute("DROP SCHEMA gated CASCADE")


def waiting_backends(lock_holder: psycopg.Connection[tuple[object, ...]]) -> list[int]:
    rows = lock_holder.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory'").fetchall()
    return [int(str(pid)) for (pid,) in rows]


@pytest.mark.parametrize("table", ["terms", "members"])
def test_run_ends_when_the_server_is_stopped(server: PostgreSQLServer, table: str, tmp_path: Path) -> None:
    """Table terms is read by the checks, over another driver than the rows of members."""
    with (
        context_on(f"{server.url()}?options=-csearch_path%3Dgated,public", tmp_path) as context,
        gated(server, table) as lock_holder,
        ThreadPoolExecutor(1) as pool,
    ):
        run = pool.submit(run_manually, context, as_of=AS_OF)
        wait_until(lambda: waiting_backends(lock_holder), what="a read of the table")
        with server.stopped(), pytest.raises(SourceUnavailable, match=_NO_ANSWER):
            run.result()
        assert_nothing_is_left(context, tmp_path)
        lock_holder.execute("SELECT pg_advisory_unlock_all()")
        assert_next_run_works(context)


def test_state_on_the_server_of_the_source_records_the_failure(
    server: PostgreSQLServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the processes of the streams are stopped. The state database loses its connections, and opens new ones."""
    monkeypatch.setattr(watch, "_MARGIN_SECONDS", 1.0)
    state = server.url(server.fresh_database())
    migrate(state)
    with (
        closing(open_state(state)) as shared,
        context_on(f"{server.url()}?options=-csearch_path%3Dgated,public", tmp_path, timeout_seconds=10) as own,
        gated(server, "members") as lock_holder,
        ThreadPoolExecutor(1) as pool,
    ):
        context = replace(own, state=shared)
        run = pool.submit(run_manually, context, as_of=AS_OF)
        streams = wait_until(lambda: (pids := waiting_backends(lock_holder))[1:] and pids, what="both streams")
        with stopped(streams), pytest.raises(SourceUnavailable, match=r"source\.statement_timeout"):
            run.result()
        assert_nothing_is_left(context, tmp_path)
        lock_holder.execute("SELECT pg_advisory_unlock_all()")
        assert_next_run_works(context)
