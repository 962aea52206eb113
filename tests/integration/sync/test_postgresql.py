"""Sync into PostgreSQL: other sessions, lost connections, restricted users."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from daybreak_client import (
    AccountFiles,
    Busy,
    Callbacks,
    DatabaseFailed,
    Daybreak,
    LockWait,
    SyncResult,
    WrongUse,
    sync,
)
from daybreak_client.database_sync import remove_account, synced_accounts
from daybreak_client.published import PublishedFile
from tests.integration.sync.conftest import TOKEN
from tests.parts.churn import Churn
from tests.parts.delta_publisher import NORTH, SOUTH, Publisher, community
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.waiting import wait_until


def verified(account: AccountFiles, url: str) -> set[str]:
    return {each.verified for each in sync(account, url, verify=True).resources}


def end_other_sessions(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_connection_may_end_during_a_download(postgresql_url: str, north: Publisher, account: AccountFiles) -> None:
    """Poolers, servers and firewalls end idle connections, and a download may take hours."""
    north.publish(Churn(NORTH, seed=13).day())

    def disconnect(file: PublishedFile, _size_bytes: int) -> None:
        if file.resource == "members":
            end_other_sessions(postgresql_url)

    sync(account, postgresql_url, callbacks=Callbacks(on_progress=disconnect))
    assert verified(account, postgresql_url) == {"equal"}


def test_lost_connection_leaves_the_old_version(postgresql_url: str, north: Publisher, account: AccountFiles) -> None:
    churn = Churn(NORTH, seed=8)
    north.publish(churn.day())
    sync(account, postgresql_url)
    north.publish(churn.day())
    steps: list[str] = []

    def disconnect(text: str) -> None:
        steps.append(text)
        if len(steps) == 4:
            end_other_sessions(postgresql_url)

    with pytest.raises(DatabaseFailed, match="PostgreSQL"):
        sync(account, postgresql_url, callbacks=Callbacks(on_step=disconnect))
    with psycopg.connect(postgresql_url) as other:
        assert other.execute("SELECT DISTINCT version FROM daybreak._daybreak_sync").fetchall() == [(1,)]
    assert verified(account, postgresql_url) == {"equal"}


@pytest.mark.release
def test_accounts_sync_at_the_same_time(
    postgresql_url: str, publishers: list[Publisher], accounts: list[AccountFiles]
) -> None:
    churns = [Churn(client_id, seed=9) for client_id in (NORTH, SOUTH)]
    for _ in range(3):
        for publisher, churn in zip(publishers, churns, strict=True):
            publisher.publish(churn.day())
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda account: sync(account, postgresql_url), accounts))
    assert [verified(account, postgresql_url) for account in accounts] == [{"equal"}, {"equal"}]


def test_sync_that_waited_for_another_sees_its_result(
    postgresql_url: str, north: Publisher, account: AccountFiles
) -> None:
    """From another machine, whatever the default isolation: a snapshot from before the wait would conflict."""
    database = postgresql_url.rpartition("/")[2]
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'".encode())
    churn = Churn(NORTH, seed=14)
    north.publish(churn.day())
    sync(account, postgresql_url)
    north.publish(churn.day())
    waiting = "query LIKE '%pg_try_advisory_xact_lock%' AND state = 'idle in transaction'"
    # Another address has another folder of downloads.
    address = north.service.url.replace("127.0.0.1", "localhost")
    with Daybreak(address, TOKEN) as service, ThreadPoolExecutor(1) as threads:
        elsewhere = service.account(NORTH)
        second: list[Future[SyncResult]] = []

        def start_second(_text: str) -> None:
            if not second:
                second.append(threads.submit(sync, elsewhere, postgresql_url))
                with psycopg.connect(postgresql_url, autocommit=True) as other:
                    query = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND {waiting}".encode()
                    wait_until(lambda: other.execute(query).fetchone() is not None, 60)

        first = sync(account, postgresql_url, callbacks=Callbacks(on_step=start_second))
        assert (first.version, second[0].result().version) == (2, 2)
    assert not second[0].result().changed
    assert verified(account, postgresql_url) == {"equal"}


def test_connection_finds_out_that_its_other_end_vanished(
    postgresql_url: str, north: Publisher, account: AccountFiles
) -> None:
    """Both ends send keepalives: one that vanished would keep the lock of the sync for hours."""
    north.publish(Churn(NORTH, seed=15).day())
    seen: dict[bool, int] = {}

    def observe(_text: str) -> None:
        with psycopg.connect(postgresql_url) as other:
            query = "SELECT client_port FROM pg_stat_activity WHERE datname = current_database() ORDER BY backend_start"
            (port,) = other.execute(query).fetchone() or (0,)
        seen.update(wait_until(lambda: keepalives(port)))

    sync(account, postgresql_url, callbacks=Callbacks(on_step=observe))
    assert max(seen.values()) <= 60


def keepalives(port: int) -> dict[bool, int]:
    """Return the seconds to the next keepalive of both ends of a connection from a port, the client's as True.

    Returns nothing while an end waits for an acknowledgment.
    """
    found = {}
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        local, remote, state, timer = (line.split()[place] for place in (1, 2, 3, 5))
        ports = [int(address.partition(":")[2], 16) for address in (local, remote)]
        kind, _, ticks = timer.partition(":")
        if port in ports and (state, kind) == ("01", "02"):
            found[ports[0] == port] = int(ticks, 16) // os.sysconf("SC_CLK_TCK")
    return found if len(found) == 2 else {}


def test_readers_see_one_version(postgresql_url: str, north: Publisher, account: AccountFiles) -> None:
    """A session that reads during the transaction sees the old version of all tables."""
    churn = Churn(NORTH, seed=10)
    north.publish(churn.day())
    sync(account, postgresql_url)
    north.publish(churn.day())
    seen: set[int] = set()

    def read(_text: str) -> None:
        with psycopg.connect(postgresql_url) as other:
            seen.update(version for (version,) in other.execute("SELECT version FROM daybreak._daybreak_sync"))
            (count,) = other.execute("SELECT count(*) FROM daybreak.members").fetchone() or (None,)
            assert count == len(north.versions[0].rows["members"])

    sync(account, postgresql_url, callbacks=Callbacks(on_step=read))
    assert seen == {1}


def test_user_without_rights_on_the_database(
    postgresql_server: PostgreSQLServer, postgresql_url: str, north: Publisher, account: AccountFiles
) -> None:
    """The schema may exist already. Views, columns and indexes of its owner are kept."""
    database = postgresql_url.rpartition("/")[2]
    role = f"loader_{database}"
    postgresql_server.execute(f"CREATE ROLE {role} LOGIN", f"CREATE SCHEMA own AUTHORIZATION {role}", database=database)
    url = postgresql_server.url(database, user=role)
    north.publish(Churn(NORTH, seed=11).day())
    with pytest.raises(DatabaseFailed, match="permission denied for database"):
        sync(account, url)
    sync(account, url, schema="own")
    postgresql_server.execute(
        "CREATE VIEW own.fans AS SELECT * FROM own.members",
        "ALTER TABLE own.members ADD COLUMN note text DEFAULT 'kept'",
        'CREATE INDEX ON own.members ("CITY")',
        database=database,
    )
    north.publish(Churn(NORTH, seed=12).day())
    assert {each.verified for each in sync(account, url, schema="own", verify=True).resources} == {"equal"}
    with psycopg.connect(postgresql_url) as other:
        fans = other.execute("SELECT count(*) FROM own.fans").fetchone()
        notes = other.execute("SELECT count(*) FROM own.members WHERE note = 'kept'").fetchone()
    assert fans == notes == (len(north.versions[-1].rows["members"]),)


def test_database_with_another_encoding_is_refused(postgresql_server: PostgreSQLServer, account: AccountFiles) -> None:
    postgresql_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with pytest.raises(WrongUse, match=r"LATIN1\. Use one with the encoding UTF8"):
        sync(account, postgresql_server.url("latin"))
    postgresql_server.drop("latin")


def test_name_that_postgresql_would_shorten_is_refused(postgresql_url: str, account: AccountFiles) -> None:
    with pytest.raises(WrongUse, match="more than 63 bytes"):
        sync(account, postgresql_url, schema="ü" * 32)


def test_unreachable_database_is_an_error(account: AccountFiles) -> None:
    with pytest.raises(DatabaseFailed, match=r"^PostgreSQL: .* Connection refused") as failed:
        sync(account, "postgresql://ana@127.0.0.1:1/exports")
    assert "\n" not in failed.value.message


def test_lock_of_another_session_is_not_waited_for_without_end(
    postgresql_url: str, north: Publisher, account: AccountFiles
) -> None:
    north.publish({})
    sync(account, postgresql_url)
    north.publish({"communities": [community(1, "Fans")]})
    impatient = Callbacks(lock_wait=LockWait(0.2))
    locks = (
        ("SELECT pg_advisory_xact_lock(hashtext('daybreak sync'), hashtext('daybreak'))", "Another sync"),
        ("LOCK TABLE daybreak.communities IN SHARE MODE", "Another session has locked a table"),
    )
    for statement, message in locks:
        with psycopg.connect(postgresql_url) as other:
            other.execute(statement.encode())
            with pytest.raises(Busy, match=message):
                sync(account, postgresql_url, callbacks=impatient)
    assert sync(account, postgresql_url, callbacks=impatient, verify=True).different == ()


def test_account_is_removed(postgresql_url: str, publishers: list[Publisher], accounts: list[AccountFiles]) -> None:
    for publisher, account in zip(publishers, accounts, strict=True):
        publisher.publish({"communities": [community(1, "F", publisher.client_id)]})
        sync(account, postgresql_url)
    assert synced_accounts(postgresql_url) == {NORTH, SOUTH}
    remove_account(postgresql_url, SOUTH)
    assert synced_accounts(postgresql_url) == {NORTH}
    with psycopg.connect(postgresql_url) as other:
        assert other.execute('SELECT "LEADER_ID"::text FROM daybreak.communities').fetchall() == [(NORTH,)]
        key = other.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'daybreak.members'::regclass "
            "AND contype = 'p'"
        ).fetchone()
    assert key == ('PRIMARY KEY ("LEADER_ID", "MEMBER_ID")',)
