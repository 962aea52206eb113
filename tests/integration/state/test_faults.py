"""A missing, hanging, locked or damaged state database: calls raise Unavailable in bounded time, then recover.

The tests allow far more time than a call should take. A call without a bound would exceed it.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.errors import Unavailable
from daybreak.state.database import Database, open_state
from daybreak.state.stores import Stores
from tests.integration.state.values import NOW, SEAT, two_accounts
from tests.parts.ports import free_port
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.waiting import PATIENT_SECONDS, wait_until

BOUND_SECONDS = 120


def read_email(stores: Stores) -> str:
    found = stores.seats.by_id(SEAT.seat_id)
    assert found is not None
    return found.email


def append_event(stores: Stores) -> None:
    stores.audit.append(AuditEvent(NOW, "login", "ok", "someone@example.org"))


async def call_all(state: Database, *, times: int = 1) -> list[Any]:
    """Return the results of concurrent reads and writes, which must complete within the bound."""
    calls = [call for _ in range(times) for call in (state.aread(read_email), state.awrite(append_event))]
    async with asyncio.timeout(BOUND_SECONDS):
        return await asyncio.gather(*calls, return_exceptions=True)


async def wait_for_recovery(state: Database) -> None:
    """Wait until reads and writes succeed."""
    async with asyncio.timeout(BOUND_SECONDS):
        while await call_all(state) != [SEAT.email, None]:  # noqa: ASYNC110 - a database sends no events
            await asyncio.sleep(0.1)


def all_unavailable(found: list[Any]) -> bool:
    return all(isinstance(one, Unavailable) and one.code == "state_unavailable" for one in found)


# --- PostgreSQL ----------------------------------------------------------------------------------


@pytest.fixture
def url(migrated_postgresql_url: str) -> str:
    state = open_state(migrated_postgresql_url)
    state.write(two_accounts)
    state.close()
    return migrated_postgresql_url


@pytest.mark.release
async def test_hanging_server_is_unavailable_then_recovers(url: str, postgresql_server: PostgreSQLServer) -> None:
    state = open_state(url, wait_seconds=1, pool_size=4)
    await wait_for_recovery(state)
    await call_all(state, times=4)
    with postgresql_server.stopped():
        # More calls than connections: some wait for an answer, some for a connection.
        assert all_unavailable(await call_all(state, times=6))
        # The pool is empty now: these wait while connecting.
        assert all_unavailable(await call_all(state))
    await wait_for_recovery(state)
    await state.aclose()


@pytest.mark.release
def test_hanging_server_blocks_a_builder_for_a_bounded_time(url: str, postgresql_server: PostgreSQLServer) -> None:
    state = open_state(url, wait_seconds=1)
    errors: list[BaseException] = []

    def build() -> None:
        for call in (lambda: state.read(read_email), lambda: state.write(append_event)):
            try:
                call()
            except Unavailable as error:
                errors.append(error)

    wait_until(lambda: builder_works(state), BOUND_SECONDS, what="the database to answer")
    with postgresql_server.stopped():
        builder = threading.Thread(target=build, daemon=True)
        builder.start()
        builder.join(BOUND_SECONDS)
        assert len(errors) == 2
    wait_until(lambda: builder_works(state), BOUND_SECONDS, what="the database to answer again")
    state.close()


def builder_works(state: Database) -> bool:
    try:
        state.write(append_event)
        return state.read(read_email) == SEAT.email
    except Unavailable:
        return False


async def test_terminated_backends_are_replaced_without_errors(url: str, postgresql_server: PostgreSQLServer) -> None:
    state = open_state(url, wait_seconds=PATIENT_SECONDS)
    database = url.rsplit("/", 1)[1]
    assert await call_all(state, times=5) == [SEAT.email, None] * 5
    for _ in range(3):
        terminate_backends(postgresql_server, database)
        # The idle connections are lost. Calls that have not begun use new ones.
        assert await call_all(state, times=5) == [SEAT.email, None] * 5
    await state.aclose()
    terminate_backends(postgresql_server, database)
    assert state.read(read_email) == SEAT.email
    terminate_backends(postgresql_server, database)
    state.write(append_event)
    state.close()


def terminate_backends(server: PostgreSQLServer, database: str) -> None:
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
    wait_until(lambda: not server.backends(database), BOUND_SECONDS, what="the backends to end")


def test_backend_terminated_during_a_write_rolls_back(url: str, postgresql_server: PostgreSQLServer) -> None:
    state = open_state(url, wait_seconds=PATIENT_SECONDS)
    database = url.rsplit("/", 1)[1]
    attempts: list[int] = []

    def work(stores: Stores) -> None:
        append_event(stores)
        attempts.append(len(attempts))
        if len(attempts) == 1:
            postgresql_server.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
            )
        append_event(stores)

    state.write(work)
    assert len(attempts) == 2, "repeated, because nothing was committed"
    assert len(state.read(lambda stores: stores.audit.read(AuditQuery()))) == 2
    state.close()


async def test_server_that_refuses_connections_is_unavailable(url: str, postgresql_server: PostgreSQLServer) -> None:
    state = open_state(url, wait_seconds=1)
    database = url.rsplit("/", 1)[1]
    await wait_for_recovery(state)
    postgresql_server.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
    try:
        terminate_backends(postgresql_server, database)
        assert all_unavailable(await call_all(state, times=3))
        with pytest.raises(Unavailable):
            state.read(read_email)
    finally:
        postgresql_server.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
    await wait_for_recovery(state)
    await state.aclose()


async def test_missing_server_is_unavailable() -> None:
    state = open_state(f"postgresql://daybreak@127.0.0.1:{free_port()}/x", wait_seconds=1)
    with pytest.raises(Unavailable):
        state.read(read_email)
    assert all_unavailable(await call_all(state, times=3))
    await state.aclose()


async def test_locked_row_is_unavailable_after_a_bounded_wait(url: str, postgresql_server: PostgreSQLServer) -> None:
    state = open_state(url, wait_seconds=1)
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM seats FOR UPDATE")
        with pytest.raises(Unavailable):
            async with asyncio.timeout(BOUND_SECONDS):
                await state.awrite(lambda stores: stores.seats.set_operator(SEAT.seat_id, operator=True))
        await wait_for_recovery(state)
    await state.aclose()


# --- SQLite --------------------------------------------------------------------------------------


async def test_locked_file_is_readable_and_unavailable_for_writes(
    sqlite_url: str, open_database: Callable[[str], Database]
) -> None:
    path = Path(sqlite_url[10:])
    state = open_state(sqlite_url, wait_seconds=0.5)
    state.write(two_accounts)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        found = await call_all(state, times=5)
        assert found[::2] == [SEAT.email] * 5
        assert all_unavailable(found[1::2])
        with pytest.raises(Unavailable):
            state.write(append_event)
    finally:
        other.execute("ROLLBACK")
        other.close()
    await wait_for_recovery(state)
    await state.aclose()


async def test_missing_file_is_unavailable_and_not_created(tmp_path: Path, sqlite_url: str) -> None:
    path = tmp_path / "later.db"
    state = open_state(f"sqlite:///{path}")
    source = open_state(sqlite_url)
    source.write(two_accounts)
    source.close()

    assert all_unavailable(await call_all(state))
    assert list(tmp_path.glob("later*")) == []
    Path(sqlite_url[10:]).rename(path)
    await wait_for_recovery(state)
    state.close()


async def test_file_that_is_not_a_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database, but longer than the header of one" * 40)
    before = path.read_bytes()
    state = open_state(f"sqlite:///{path}")
    found = await call_all(state)
    assert all_unavailable(found)
    # Waiting does not help, so the message does not suggest it.
    assert all("not a SQLite database" in one.message and "shortly" not in one.message for one in found)
    await state.aclose()
    assert path.read_bytes() == before


async def test_inaccessible_file_is_unavailable_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    state = open_state(f"sqlite:///{tmp_path / 'state.db'}")
    found = await call_all(state)
    assert all_unavailable(found)
    assert all("state.url" in one.message and "shortly" not in one.message for one in found)
    await state.aclose()


async def test_full_disk_refuses_the_write_and_keeps_stored_rows(sqlite_url: str) -> None:
    state = open_state(sqlite_url)
    state.write(two_accounts)
    await wait_for_recovery(state)
    before = len(await state.aread(lambda stores: stores.audit.read(AuditQuery())))

    def fill(stores: Stores) -> None:
        connection: Any = stores.audit._connection
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
        try:
            for _ in range(2000):
                stores.audit.append(AuditEvent(NOW, "login", "ok", "x" * 500))
        finally:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")

    with pytest.raises(Unavailable, match="disk of the state database is full"):
        await state.awrite(fill)
    assert len(await state.aread(lambda stores: stores.audit.read(AuditQuery()))) == before
    await wait_for_recovery(state)
    await state.aclose()


async def test_sqlite_commits_are_durable_and_overwrite_deleted_rows(sqlite_url: str) -> None:
    state = open_state(sqlite_url)
    read: Callable[[Stores], list[Any]] = lambda stores: [  # noqa: E731 - one expression, used three times
        stores.audit._connection.exec_driver_sql(f"PRAGMA {name}").scalar()
        for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
    ]
    assert state.read(read) == ["wal", 2, 1, 1]
    assert state.write(read) == ["wal", 2, 1, 1]
    assert await state.awrite(read) == ["wal", 2, 1, 1]
    state.close()
