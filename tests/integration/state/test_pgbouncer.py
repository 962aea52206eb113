"""State database behind PgBouncer in transaction mode."""

import asyncio
from collections.abc import Callable

import pytest

from daybreak.state.copy import copy_state
from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate, require_current
from daybreak.state.stores import Stores
from tests.integration.state.test_postgresql_roles import use_every_store
from tests.integration.state.values import SEAT, two_accounts
from tests.parts.pgbouncer import PgBouncer
from tests.parts.waiting import PATIENT_SECONDS


def email(stores: Stores) -> str:
    found = stores.seats.by_id(SEAT.seat_id)
    assert found is not None
    return found.email


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, postgresql_url: str) -> str:
    url = pgbouncer.url(postgresql_url)
    migrate(url)
    return url


async def test_stores_leave_nothing_in_the_pool(pgbouncer: PgBouncer, pooled_url: str) -> None:
    state = open_state(pooled_url, wait_seconds=PATIENT_SECONDS)
    require_current(state, pooled_url)
    state.write(use_every_store)

    async def many() -> list[str]:
        try:
            for _ in range(8):
                await asyncio.gather(*(state.awrite(two_accounts) for _ in range(4)))
            return await asyncio.gather(*(state.aread(email) for _ in range(40)))
        finally:
            await state.aclose()

    assert set(await many()) == {SEAT.email}
    assert {state.read(email) for _ in range(20)} == {SEAT.email}
    state.close()
    assert pgbouncer.session_settings(pooled_url.rpartition("/")[2]) == [{}, {}]


def test_copy_through_a_pooler(
    pooled_url: str, sqlite_url: str, pgbouncer: PgBouncer, make_postgresql_url: Callable[[], str]
) -> None:
    source = open_state(sqlite_url)
    source.write(two_accounts)
    source.close()
    assert copy_state(sqlite_url, pooled_url)["seats"] == 1
    assert copy_state(pooled_url, pgbouncer.url(make_postgresql_url()))["seats"] == 1


def test_transactions_have_timeouts(pooled_url: str, open_database: Callable[[str], Database]) -> None:
    """The server ends a statement, a wait for a lock and an idle transaction of a process that was killed."""
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")

    def settings(stores: Stores) -> list[str]:
        connection = stores.seats._connection
        return [str(connection.exec_driver_sql(f"SHOW {name}").scalar()) for name in names]

    state = open_database(pooled_url)
    assert "0" not in state.write(settings)
    assert "0" not in state.read(settings)
