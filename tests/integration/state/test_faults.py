"""A state database that is away, hangs, is locked or breaks: Unavailable in bounded time, and then well again.

How long "bounded" is shows in that the calls come back at all: each is given far longer than it should take.
"""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Unavailable
from daybreak.ports.state import Stores
from daybreak.state.database import Database, open_state
from tests.integration.state.values import NOW, PATIENT_SECONDS, SEAT, two_accounts
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.waiting import free_port, wait_until

AT_ALL_SECONDS = 120


def look(stores: Stores) -> str:
    found = stores.seats.by_id(SEAT.seat_id)
    assert found is not None
    return found.email


def note(stores: Stores) -> None:
    stores.audit.append(AuditEvent(NOW, "login", "ok", "someone@example.org"))


async def answers(state: Database, *, times: int = 1) -> list[Any]:
    """What awaited reads and writes come back with; they come back at all."""
    calls = [call for _ in range(times) for call in (state.aread(look), state.awrite(note))]
    async with asyncio.timeout(AT_ALL_SECONDS):
        return await asyncio.gather(*calls, return_exceptions=True)


async def is_well(state: Database) -> None:
    """Waits until both kinds of call work (again), unaided."""
    async with asyncio.timeout(AT_ALL_SECONDS):
        while await answers(state) != [SEAT.email, None]:  # noqa: ASYNC110 - a database sends no event
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


@contextmanager
def stopped(server: PostgreSQLServer) -> Iterator[None]:
    """The whole server stands still: its sockets stay open and nobody answers."""
    processes = [psutil.Process(server.program.pid), *psutil.Process(server.program.pid).children(recursive=True)]
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(processes):
            os.kill(process.pid, signal.SIGCONT)


def test_a_server_that_hangs_costs_a_bounded_wait_and_then_all_is_well(
    url: str, postgresql_server: PostgreSQLServer
) -> None:
    state = open_state(url, wait_seconds=1, pool_size=4)

    async def scenario() -> None:
        await is_well(state)
        await answers(state, times=4)
        with stopped(postgresql_server):
            # More calls than connections: some hang in a statement, some wait for a connection.
            assert all_unavailable(await answers(state, times=6))
            # Now the pool is empty: these hang while they connect.
            assert all_unavailable(await answers(state))
        await is_well(state)
        await state.aclose()

    asyncio.run(scenario())


def test_a_server_that_hangs_does_not_hold_a_builder_for_ever(url: str, postgresql_server: PostgreSQLServer) -> None:
    state = open_state(url, wait_seconds=1)
    came_back: list[BaseException] = []

    def build() -> None:
        for call in (lambda: state.read(look), lambda: state.write(note)):
            try:
                call()
            except Unavailable as error:
                came_back.append(error)

    wait_until(lambda: builder_works(state), AT_ALL_SECONDS, what="the database to answer")
    with stopped(postgresql_server):
        builder = threading.Thread(target=build, daemon=True)
        builder.start()
        builder.join(AT_ALL_SECONDS)
        assert len(came_back) == 2
    wait_until(lambda: builder_works(state), AT_ALL_SECONDS, what="the database to answer again")
    state.close()


def builder_works(state: Database) -> bool:
    try:
        state.write(note)
        return state.read(look) == SEAT.email
    except Unavailable:
        return False


def test_back_ends_that_are_ended_are_replaced_without_anybody_noticing(
    url: str, postgresql_server: PostgreSQLServer
) -> None:
    state = open_state(url, wait_seconds=PATIENT_SECONDS)
    database = url.rsplit("/", 1)[1]

    async def scenario() -> None:
        assert await answers(state, times=5) == [SEAT.email, None] * 5
        for _ in range(3):
            end_back_ends(postgresql_server, database)
            # Idle connections were lost: a read or a write that has not begun is simply made on another one.
            assert await answers(state, times=5) == [SEAT.email, None] * 5
        await state.aclose()

    asyncio.run(scenario())
    end_back_ends(postgresql_server, database)
    assert state.read(look) == SEAT.email
    end_back_ends(postgresql_server, database)
    state.write(note)
    state.close()


def end_back_ends(server: PostgreSQLServer, database: str) -> None:
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
    wait_until(lambda: not server.back_ends(database), AT_ALL_SECONDS, what="back ends to end")


def test_a_back_end_that_is_ended_in_the_middle_of_a_write_undoes_it(
    url: str, postgresql_server: PostgreSQLServer
) -> None:
    state = open_state(url, wait_seconds=PATIENT_SECONDS)
    database = url.rsplit("/", 1)[1]
    tries: list[int] = []

    def work(stores: Stores) -> None:
        note(stores)
        tries.append(len(tries))
        if len(tries) == 1:
            postgresql_server.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
            )
        note(stores)

    state.write(work)
    assert len(tries) == 2, "done again, as nothing had been committed"
    assert len(state.read(lambda stores: stores.audit.read())) == 2
    state.close()


def test_a_server_that_lets_nobody_in_is_unavailable_until_it_does(
    url: str, postgresql_server: PostgreSQLServer
) -> None:
    state = open_state(url, wait_seconds=1)
    database = url.rsplit("/", 1)[1]

    async def scenario() -> None:
        await is_well(state)
        postgresql_server.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        try:
            end_back_ends(postgresql_server, database)
            assert all_unavailable(await answers(state, times=3))
            with pytest.raises(Unavailable):
                state.read(look)
        finally:
            postgresql_server.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
        await is_well(state)
        await state.aclose()

    asyncio.run(scenario())


def test_a_server_that_is_not_there_is_unavailable() -> None:
    state = open_state(f"postgresql://daybreak@127.0.0.1:{free_port()}/x", wait_seconds=1)

    async def scenario() -> None:
        assert all_unavailable(await answers(state, times=3))
        await state.aclose()

    with pytest.raises(Unavailable):
        state.read(look)
    asyncio.run(scenario())


def test_a_row_that_somebody_keeps_locked_costs_a_bounded_wait(url: str, postgresql_server: PostgreSQLServer) -> None:
    state = open_state(url, wait_seconds=1)

    async def scenario() -> None:
        with psycopg.connect(url) as other:
            other.execute("SELECT * FROM seats FOR UPDATE")
            with pytest.raises(Unavailable):
                async with asyncio.timeout(AT_ALL_SECONDS):
                    await state.awrite(lambda stores: stores.seats.set_operator(SEAT.seat_id, True))
            await is_well(state)
        await state.aclose()

    asyncio.run(scenario())


# --- SQLite --------------------------------------------------------------------------------------


def test_a_file_that_somebody_writes_to_is_read_and_is_unavailable_for_writes(
    sqlite_url: str, open_one: Callable[[str], Database]
) -> None:
    path = Path(sqlite_url[10:])
    state = open_state(sqlite_url, wait_seconds=0.5)
    state.write(two_accounts)
    other = sqlite3.connect(path, isolation_level=None)

    async def scenario() -> None:
        other.execute("BEGIN IMMEDIATE")
        try:
            found = await answers(state, times=5)
            assert found[::2] == [SEAT.email] * 5
            assert all_unavailable(found[1::2])
            with pytest.raises(Unavailable):
                state.write(note)
        finally:
            other.execute("ROLLBACK")
            other.close()
        await is_well(state)
        await state.aclose()

    asyncio.run(scenario())


def test_a_file_that_is_not_there_is_unavailable_and_is_not_made_by_asking(tmp_path: Path, sqlite_url: str) -> None:
    path = tmp_path / "later.db"
    state = open_state(f"sqlite:///{path}")
    source = open_state(sqlite_url)
    source.write(two_accounts)
    source.close()

    assert all_unavailable(asyncio.run(answers(state)))
    assert list(tmp_path.glob("later*")) == []
    Path(sqlite_url[10:]).rename(path)
    asyncio.run(is_well(state))
    state.close()


def test_a_file_that_is_no_database_is_unavailable_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database, but more than a hundred bytes of something else" * 40)
    before = path.read_bytes()
    state = open_state(f"sqlite:///{path}")

    async def scenario() -> None:
        found = await answers(state)
        assert all_unavailable(found)
        # Nothing gets better by waiting.
        assert all("no SQLite database" in one.message and "shortly" not in one.message for one in found)
        await state.aclose()

    asyncio.run(scenario())
    assert path.read_bytes() == before


def test_a_file_out_of_reach_is_unavailable_and_the_operator_is_told_what_to_see_to(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    state = open_state(f"sqlite:///{tmp_path / 'state.db'}")

    async def scenario() -> None:
        found = await answers(state)
        assert all_unavailable(found)
        assert all("state.url" in one.message and "shortly" not in one.message for one in found)
        await state.aclose()

    asyncio.run(scenario())


def test_a_disk_that_is_full_refuses_the_write_and_keeps_what_was_there(sqlite_url: str) -> None:
    state = open_state(sqlite_url)
    state.write(two_accounts)

    async def scenario() -> None:
        await is_well(state)
        before = len(await state.aread(lambda stores: stores.audit.read()))

        def fill(stores: Stores) -> None:
            connection: Any = stores.audit._connection  # type: ignore[attr-defined]
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            try:
                for _ in range(2000):
                    stores.audit.append(AuditEvent(NOW, "login", "ok", "x" * 500))
            finally:
                connection.exec_driver_sql("PRAGMA max_page_count = 1000000")

        with pytest.raises(Unavailable, match="disk of the state database is full"):
            await state.awrite(fill)
        assert len(await state.aread(lambda stores: stores.audit.read())) == before
        await is_well(state)
        await state.aclose()

    asyncio.run(scenario())


def test_an_acknowledged_write_is_on_the_disk(sqlite_url: str) -> None:
    state = open_state(sqlite_url)
    read: Callable[[Stores], list[Any]] = lambda stores: [  # noqa: E731 - three one-line questions
        stores.audit._connection.exec_driver_sql(f"PRAGMA {name}").scalar()  # type: ignore[attr-defined]
        for name in ("journal_mode", "synchronous", "foreign_keys")
    ]
    assert state.read(read) == ["wal", 2, 1]
    assert state.write(read) == ["wal", 2, 1]
    assert asyncio.run(state.awrite(read)) == ["wal", 2, 1]
    state.close()
