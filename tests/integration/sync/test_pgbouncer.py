"""Sync through PgBouncer in transaction mode: nothing outlives a transaction, whatever other clients left behind."""

import psycopg
import pytest

from daybreak_client import AccountFiles, sync
from tests.parts.churn import Churn
from tests.parts.delta_publisher import NORTH, Publisher
from tests.parts.pgbouncer import PgBouncer


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, postgresql_url: str) -> str:
    return pgbouncer.url(postgresql_url)


@pytest.fixture
def database(postgresql_url: str) -> str:
    return postgresql_url.rpartition("/")[2]


def test_dry_run_leaves_the_pool_writable(
    pgbouncer: PgBouncer, pooled_url: str, database: str, north: Publisher, account: AccountFiles
) -> None:
    north.publish(Churn(NORTH, seed=1).day())
    sync(account, pooled_url, dry_run=True)
    assert pgbouncer.session_settings(database) == [{}, {}]
    with psycopg.connect(pooled_url) as other:
        other.execute("CREATE TABLE own (number int)")


def test_repeated_syncs_leave_nothing_in_the_pool(
    pgbouncer: PgBouncer, pooled_url: str, database: str, north: Publisher, account: AccountFiles
) -> None:
    churn = Churn(NORTH, seed=2)
    for _ in range(3):
        north.publish(churn.day())
        sync(account, pooled_url)
        result = sync(account, pooled_url, full=True, verify=True)
        assert {each.verified for each in result.resources} == {"equal"}
    assert pgbouncer.session_settings(database) == [{}, {}]


def test_settings_of_other_clients_do_not_matter(
    pooled_url: str, postgresql_url: str, north: Publisher, account: AccountFiles
) -> None:
    """The server connections have the zone and the date style that another application has set."""
    churn = Churn(NORTH, seed=3)
    north.publish(churn.day())
    with psycopg.connect(pooled_url) as one, psycopg.connect(pooled_url) as other:
        for client in (one, other):
            client.execute("SET TimeZone = 'Asia/Kathmandu'")
            client.execute("SET DateStyle = 'SQL, DMY'")
            client.execute("SET IntervalStyle = 'sql_standard'")
            client.execute("SET search_path = pg_catalog")
    result = sync(account, pooled_url, verify=True)
    assert {each.verified for each in result.resources} == {"equal"}
    north.publish(churn.day())
    assert {each.verified for each in sync(account, pooled_url, verify=True).resources} == {"equal"}
    assert {each.verified for each in sync(account, postgresql_url, verify=True).resources} == {"equal"}


def test_accounts_verify_while_others_use_the_pool(pooled_url: str, north: Publisher, account: AccountFiles) -> None:
    """A temporary table that outlives its transaction would meet that of another sync."""
    north.publish(Churn(NORTH, seed=4).day())
    sync(account, pooled_url)
    with psycopg.connect(pooled_url) as busy:
        busy.execute("SELECT 1")
        # The digest differs, so the full file is compared, in a temporary table.
        with psycopg.connect(pooled_url, autocommit=True) as other:
            other.execute('UPDATE daybreak.members SET "MEMBER_ID" = gen_random_uuid()')
        different = {
            each.resource for each in sync(account, pooled_url, verify=True).resources if each.verified != "equal"
        }
    assert different == {"members"}
