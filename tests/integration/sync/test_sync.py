"""Sync into DuckDB and PostgreSQL: the tables always equal one published version."""

import gzip
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from daybreak_client import (
    AccountFiles,
    Busy,
    Callbacks,
    ClientError,
    Damaged,
    DatabaseFailed,
    LockWait,
    SyncResult,
    WrongUse,
    connection,
    folder,
    sync,
)
from tests.integration.sync.conftest import Target, both_databases, one_database, verified_sync
from tests.parts.churn import Churn
from tests.parts.delta_publisher import NORTH, SOUTH, Publisher, Row, community, id_of, member
from tests.parts.scripted_service import Reply, Request
from tests.parts.variants import one_of


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(folder, "_FIRST_WAIT_SECONDS", 0.001)


MEMBER_1 = id_of(1)


def actions(result: SyncResult) -> dict[str, str]:
    """Return the actions by resource, without those of unchanged resources."""
    return {each.resource: each.action for each in result.resources if each.action != "unchanged"}


def reason(result: SyncResult, resource: str) -> str:
    return next(each.reason for each in result.resources if each.resource == resource)


def members(*rows: Row) -> dict[str, list[Row]]:
    return {"members": list(rows)}


@one_database
@pytest.mark.parametrize("later", [0, pytest.param(1, marks=pytest.mark.release), 2])
def test_restored_service_is_loaded_again(target: Target, north: Publisher, account: AccountFiles, later: int) -> None:
    """A copy of the service publishes version 2 again, with other rows."""
    for name in ("Ana", "Eva"):
        north.publish(members(member(1, name)))
        sync(account, target.url)
    north.restore(1)
    north.publish(members(member(1, "Ida")))
    for number in range(later):
        north.publish(members(member(1, "Ida"), member(2 + number, "Uta")))
    result = verified_sync(account, target.url)
    assert result.changed
    assert actions(result) == {"members": "full"} if later else set(actions(result).values()) == {"full"}
    names = target.query(f'SELECT "FIRST_NAME" FROM {target.schema}.members WHERE "MEMBER_ID" = \'{MEMBER_1}\'')
    assert names == [("Ida",)]


def test_another_file_of_the_same_snapshot_is_different(
    target: Target, north: Publisher, account: AccountFiles
) -> None:
    """The published file is compared, and a service that contradicts itself is not waited for."""
    north.publish(members(member(1, "Ana")))
    sync(account, target.url)
    target.query(f"UPDATE {target.schema}.members SET \"FIRST_NAME\" = 'Eva'")
    north.versions[-1].full["members"] = north.versions[-1].full["members"].replace(b"Ana", b"Ida")
    assert sync(account, target.url, verify=True).different == ("members",)


@both_databases
@pytest.mark.parametrize("seed", one_of(0, 1))
def test_deltas_lead_to_the_published_files(target: Target, north: Publisher, account: AccountFiles, seed: int) -> None:
    churn = Churn(NORTH, seed)
    for day in range(6):
        north.publish(churn.day())
        if day in {2, 3}:
            continue  # days without a sync
        result = verified_sync(account, target.url)
        assert result.version == day + 1
        assert set(actions(result).values()) <= ({"delta"} if day else {"full"})


@one_database
def test_nothing_new_costs_one_request(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish(members(member(1)))
    sync(account, target.url)
    sync(account, target.url)
    before = len(north.service.requests)
    result = sync(account, target.url)
    assert [request.path for request in north.service.requests[before:]] == [
        f"/download/v1/files/{NORTH}/deltas?since=1"
    ]
    assert "if-none-match" in north.service.requests[-1].headers
    assert not result.changed
    assert actions(result) == {}


@one_database
def test_late_files_are_reported(target: Target, north: Publisher, account: AccountFiles) -> None:
    """Without news, the age of the data decides."""
    north.late_reason = "Today's files failed to build."
    north.publish(members(member(1)))
    assert sync(account, target.url).notes == (f"New files are late. {north.late_reason}",)
    (note,) = sync(account, target.url).notes
    assert note.startswith("New files are late. The current ones describe 20")
    assert sync(account, target.url, dry_run=True).notes == (note,)
    north.first_day, north.late_reason = datetime.now(UTC) - timedelta(days=1), None
    north.publish(members(member(2)))
    assert sync(account, target.url).notes == ()
    assert sync(account, target.url).notes == ()


@one_database
def test_delta_transfers_only_changed_rows(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish(members(*(member(number, "Ana") for number in range(500))))
    sync(account, target.url)
    north.publish(members(*(member(number, "Eva" if number == 7 else "Ana") for number in range(1, 500)), member(900)))
    before = len(north.service.requests)
    (changed,) = [each for each in sync(account, target.url).resources if each.action != "unchanged"]
    assert (changed.action, changed.inserted, changed.deleted, changed.rows) == ("delta", 2, 2, 500)
    requested = [request.path for request in north.service.requests[before:]]
    assert not any(path.endswith("/members.csv.gz") for path in requested)
    assert target.query(f'SELECT "FIRST_NAME" FROM {target.schema}.members WHERE "FIRST_NAME" <> \'Ana\'') == [("Eva",)]


def test_accounts_share_the_tables(target: Target, publishers: list[Publisher], accounts: list[AccountFiles]) -> None:
    """A Member that moves is for a while in the rows of both accounts."""
    north, south = publishers
    churns = [Churn(NORTH, seed=1), Churn(SOUTH, seed=1)]
    for _ in range(3):
        for each, churn in zip(publishers, churns, strict=True):
            each.publish(churn.day())
        for account in accounts:
            verified_sync(account, target.url)
    south.publish(members(member(1, leader=SOUTH)))
    north.publish(members(member(1)))
    for account in accounts:
        sync(account, target.url)
    for account in accounts:
        verified_sync(account, target.url)
    leaders = target.query(f'SELECT "LEADER_ID" FROM {target.schema}.members ORDER BY 1')
    assert [str(leader) for (leader,) in leaders] == sorted([NORTH, SOUTH])


def publish_change(north: Publisher, account: AccountFiles, target: Target) -> None:
    """Sync a version, and publish another one that changes members and communities."""
    fans = community(1, "Fans")
    north.publish({**members(member(1, "Ana"), member(2), member(3)), "communities": [fans]})
    sync(account, target.url)
    north.publish({**members(member(1, "Eva"), member(3), member(4)), "communities": [(*fans[:3], 2)]})


@one_database
@pytest.mark.parametrize("damage", one_of("bytes", "truncated", "missing", "header", "not gzip"))
def test_damaged_or_missing_delta_is_not_applied(
    target: Target, north: Publisher, account: AccountFiles, damage: str
) -> None:
    publish_change(north, account, target)
    packed = north.versions[1].deltas["members.delta.csv.gz"]
    if damage == "missing":
        del north.versions[1].deltas["members.delta.csv.gz"]
    elif damage in {"bytes", "truncated"}:
        other = packed[:-9] + b"damaged!!" if damage == "bytes" else packed[:-9]
        north.replace_delta(2, "members", other, announce=False)
    else:
        other = gzip.compress(gzip.decompress(packed).replace(b'"_OP"', b'"OP"', 1))
        north.replace_delta(2, "members", other if damage == "header" else b"not gzip at all", announce=True)
    result = verified_sync(account, target.url)
    assert actions(result)["members"] == "full"
    assert "delta is" in reason(result, "members")


def test_delta_of_another_account_is_not_applied(
    target: Target, publishers: list[Publisher], accounts: list[AccountFiles]
) -> None:
    """Even a feed that announces the foreign delta cannot bring its rows into the tables."""
    north, south = publishers
    publish_change(north, accounts[0], target)
    south.publish(members(member(1, leader=SOUTH)))
    south.publish(members(member(1, "Eve", leader=SOUTH)))
    north.replace_delta(2, "members", south.versions[1].deltas["members.delta.csv.gz"], announce=True)
    result = verified_sync(accounts[0], target.url)
    assert actions(result) == {"members": "full", "communities": "delta"}
    assert target.query(f"SELECT count(*) FROM {target.schema}.members WHERE \"FIRST_NAME\" = 'Eve'") == [(0,)]


def test_delta_with_other_rows_is_rolled_back(target: Target, north: Publisher, account: AccountFiles) -> None:
    """A delta of this account whose rows are not those that the feed counts."""
    publish_change(north, account, target)
    north.publish(members(member(5), member(6), member(7)))
    north.replace_delta(2, "members", north.versions[2].deltas["members.delta.csv.gz"], announce=True)
    del north.versions[2:]
    result = verified_sync(account, target.url)
    assert actions(result) == {"members": "full", "communities": "delta"}


@one_database
def test_closed_chain_loads_full_files(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)
    north.close_chain()
    result = verified_sync(account, target.url)
    assert set(actions(result).values()) == {"full"}
    assert len(actions(result)) == 9
    assert "chain" in reason(result, "members")
    assert north.count("/deltas/2/") == 0


def change_feed(north: Publisher, change: str) -> None:
    changed = north.versions[1].changes["members"]
    match change:
        case "larger than full":
            changed.clear()
            changed |= {"state": "full_required", "reason": "larger_than_full"}
        case "other content before":
            changed["content_sha256_before"] = "0" * 64
        case "other content after":
            changed["content_sha256_after"] = "0" * 64
        case "left out":
            del north.versions[1].changes["members"]
        case "unchanged":
            north.versions[1].changes["members"] = {"state": "unchanged"}


@pytest.mark.parametrize(
    "change", ["larger than full", "other content before", "other content after", "left out", "unchanged"]
)
def test_unsuitable_delta_is_replaced_by_the_full_file(
    target: Target, north: Publisher, account: AccountFiles, change: str
) -> None:
    publish_change(north, account, target)
    change_feed(north, change)
    result = verified_sync(account, target.url)
    assert actions(result) == {"members": "full", "communities": "delta"}


@one_database
def test_gap_in_the_chain_loads_full_files(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)
    north.publish(members(member(9)))
    north.versions[1].number = 7  # the feed then lists the version 3 without the version before it
    result = verified_sync(account, target.url)
    assert len(actions(result)) == 9
    assert reason(result, "members") == "the deltas do not continue from the stored version"


@both_databases
def test_changed_tables_are_repaired(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)
    target.query(f"DELETE FROM {target.schema}.members WHERE \"FIRST_NAME\" = 'Ana'")
    result = verified_sync(account, target.url)
    assert actions(result)["members"] == "full"

    target.query(f"UPDATE {target.schema}.members SET \"CITY\" = 'Elsewhere'")
    result = sync(account, target.url, verify=True)
    assert result.different == ("members",)
    verified_sync(account, target.url, full=True)


@both_databases
@pytest.mark.parametrize("with_index", one_of(True, False))
def test_full_load_keeps_other_rows_key_and_indexes(
    target: Target, publishers: list[Publisher], accounts: list[AccountFiles], with_index: bool
) -> None:
    """DuckDB tables are copied when most rows are replaced, unless the user has added an index."""
    north, south = publishers
    north.publish(members(*(member(number, "Ana") for number in range(1, 9))))
    south.publish(members(member(9, leader=SOUTH)))
    for account in accounts:
        sync(account, target.url)
    if with_index:
        target.query(f'CREATE INDEX members_by_name ON {target.schema}.members ("FIRST_NAME")')
    for account in accounts:
        verified_sync(account, target.url, full=True)
    for account in accounts:
        verified_sync(account, target.url)
    with pytest.raises(Exception, match=r"(?i)duplicate key"):
        target.query(f"INSERT INTO {target.schema}.members SELECT * FROM {target.schema}.members")
    if with_index:
        target.query(f"DROP INDEX {target.schema}.members_by_name")


def test_dropped_table_is_loaded_again(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)
    sync(account, target.url)
    sync(account, target.url)
    target.query(f"DROP TABLE {target.schema}.members")
    result = verified_sync(account, target.url)
    assert actions(result) == {"members": "full"}


@pytest.mark.parametrize(
    ("change", "verify"),
    [("DELETE FROM", False), ("DELETE FROM", True), ("UPDATE", False)],
)
def test_deleted_state_is_loaded_again(
    target: Target, north: Publisher, account: AccountFiles, change: str, *, verify: bool
) -> None:
    """A row of the state with NULL counts as deleted."""
    north.publish(members(member(1)))
    sync(account, target.url)
    values = "SET version = NULL, columns = NULL" if change == "UPDATE" else ""
    target.query(f"{change} {target.schema}._daybreak_sync {values} WHERE resource = 'members'")
    result = sync(account, target.url, verify=verify)
    assert (actions(result), reason(result, "members")) == ({"members": "full"}, "not in the database")
    verified_sync(account, target.url)


def test_dry_run_changes_nothing(target: Target, north: Publisher, account: AccountFiles, tmp_path: Path) -> None:
    north.publish(members(member(1)))
    planned = sync(account, target.url, dry_run=True)
    assert set(actions(planned).values()) == {"full"}
    assert planned.previous_version is None
    if target.is_postgresql:
        assert target.query("SELECT count(*) FROM pg_namespace WHERE nspname = 'daybreak'") == [(0,)]
    else:
        assert not (tmp_path / "exports.duckdb").exists()
    sync(account, target.url)
    assert not sync(account, target.url, dry_run=True).changed
    assert target.query(f"SELECT DISTINCT feed_etag FROM {target.schema}._daybreak_sync") == [("",)]
    north.publish(members(member(2)))
    planned = sync(account, target.url, dry_run=True)
    assert actions(planned) == {"members": "delta"}
    assert (planned.previous_version, planned.version) == (1, 2)
    assert target.query(f"SELECT max(version) FROM {target.schema}._daybreak_sync") == [(1,)]
    assert north.count("/deltas/2/") == 0


@one_database
def test_dry_run_cannot_verify(target: Target, account: AccountFiles) -> None:
    with pytest.raises(WrongUse, match="dry run"):
        sync(account, target.url, dry_run=True, verify=True)


def with_column(schema: dict[str, Any], **change: str) -> dict[str, Any]:
    """Return the schema with a changed FIRST_NAME column of members."""
    (described,) = [each for each in schema["resources"] if each["name"] == "members"]
    (field,) = [each for each in described["schema"]["fields"] if each["name"] == "FIRST_NAME"]
    field |= change
    return schema


@both_databases
def test_new_column_is_added(target: Target, north: Publisher, account: AccountFiles) -> None:
    """A table of an earlier schema gets the column, with the values of the full file."""
    north.publish(members(member(1, "Ana")))
    sync(account, target.url)
    target.query(f'ALTER TABLE {target.schema}.members DROP COLUMN "DEVICE_TYPE"')
    north.publish(members(member(1, "Eva")))
    north.close_chain()
    verified_sync(account, target.url)


@both_databases
def test_column_of_another_type_is_refused(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish(members(member(1, "Ana")))
    sync(account, target.url)
    north.columns = lambda schema: with_column(schema, type="integer", format="default")
    north.publish(members(member(1, "7")))
    with pytest.raises(WrongUse, match=r"members\.FIRST_NAME has the type \w+, not bigint\. Drop the table"):
        sync(account, target.url)
    assert target.query(f'SELECT "FIRST_NAME" FROM {target.schema}.members') == [("Ana",)]
    target.query(f"DROP TABLE {target.schema}.members")
    assert sync(account, target.url).version == 2
    assert target.query(f'SELECT "FIRST_NAME" FROM {target.schema}.members') == [(7,)]


def test_full_load_checks_column_types(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish({})
    sync(account, target.url)
    target.query(f'ALTER TABLE {target.schema}.communities ALTER "MEMBER_COUNT" TYPE varchar')
    for full in (True, False):
        with pytest.raises(
            WrongUse, match=r"(?i)communities\.MEMBER_COUNT has the type (character )?var.*Drop the table"
        ):
            sync(account, target.url, full=full, verify=True)


def test_timestamps_that_would_be_rounded_are_refused(
    postgresql_url: str, north: Publisher, account: AccountFiles
) -> None:
    north.publish({})
    sync(account, postgresql_url)
    for digits in (6, 3):
        north.publish({})
        with psycopg.connect(postgresql_url) as connection:
            connection.execute(f'ALTER TABLE daybreak.campaigns ALTER "SENT_AT" TYPE timestamptz({digits})'.encode())
        if digits == 6:
            sync(account, postgresql_url)
    with pytest.raises(WrongUse, match=r"campaigns\.SENT_AT has the type timestamp\(3\) with time zone, not timestamp"):
        sync(account, postgresql_url)


def test_dropped_column_fails_the_verification(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish(members(member(1, "Ana")))
    sync(account, target.url)
    target.query(f'ALTER TABLE {target.schema}.members DROP COLUMN "FIRST_NAME"')
    assert sync(account, target.url, verify=True).different == ("members",)
    verified_sync(account, target.url, full=True)
    assert target.query(f'SELECT "FIRST_NAME" FROM {target.schema}.members') == [("Ana",)]


@pytest.mark.parametrize("dry_run", one_of(False, True))
def test_unrelated_table_is_refused(target: Target, north: Publisher, account: AccountFiles, *, dry_run: bool) -> None:
    north.publish(members(member(1)))
    target.query(f"CREATE SCHEMA IF NOT EXISTS {target.schema}")
    target.query(f"CREATE TABLE {target.schema}.members (id integer, name varchar)")
    target.query(f"INSERT INTO {target.schema}.members VALUES (7, 'Ana')")
    with pytest.raises(WrongUse, match=r"another table members, without the column LEADER_ID.*--schema"):
        sync(account, target.url, dry_run=dry_run)
    assert target.query(f"SELECT * FROM {target.schema}.members") == [(7, "Ana")]
    verified_sync(account, target.url, schema="own")


@pytest.mark.release
@both_databases
def test_repeated_key_removes_the_primary_key(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish(members(member(1), member(2)))
    assert sync(account, target.url).notes == ()
    north.publish(members(member(1), member(1, "again"), member(2)))
    result = verified_sync(account, target.url)
    assert result.notes == ("members has no primary key: its rows repeat the key, or have no value in it.",)
    north.publish(members(member(1), member(2)))
    verified_sync(account, target.url, full=True)
    with pytest.raises(Exception, match=r"(?i)duplicate key"):
        target.query(f"INSERT INTO {target.schema}.members SELECT * FROM {target.schema}.members")


def test_repeated_key_in_the_first_load(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish(members(member(1), member(1, "again")))
    result = verified_sync(account, target.url)
    assert result.notes == ("members has no primary key: its rows repeat the key, or have no value in it.",)


@both_databases
def test_constraint_of_the_user_is_named(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish(members(member(1, "Ana"), member(2, "Eva")))
    sync(account, target.url)
    table = f"{target.schema}.communities"
    target.query(f"DROP TABLE {table}")
    target.query(f'CREATE TABLE {table} ("LEADER_ID" uuid, note varchar NOT NULL)')
    north.publish({"communities": [community(1, "Fans")]})
    with pytest.raises(DatabaseFailed, match=r"communities: .*note") as failure:
        sync(account, target.url)
    assert "Fans" not in failure.value.message


def test_key_without_a_value_is_stored(target: Target, north: Publisher, account: AccountFiles) -> None:
    """Also as a delta, whose `D` row deletes the rows with the same NULL."""

    def link(link_type: str | None, hits: int) -> Row:
        return (id_of(1), NORTH, link_type, "https://example.org/", 7, hits)

    for hits in range(3):
        north.publish({**members(*[member(1)] * (hits < 2)), "campaign_links": [link("link", 1), link(None, hits)]})
        result = verified_sync(account, target.url)
    assert actions(result) == {"campaign_links": "delta", "members": "delta"}


@both_databases
def test_unusual_dates_are_stored(target: Target, north: Publisher, account: AccountFiles) -> None:
    dates = (
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("0044-03-15 (BC)", None),
        ("0001-01-01", None),
        ("20000-01-01", "20000-03-15T01:02:03.000000Z"),
        ("1890-01-01", "1890-03-15T01:02:03.100000Z"),
    )
    rows = [(*member(number)[:7], date, *[None] * 7, time) for number, (date, time) in enumerate(dates)]
    north.publish(members(*rows))
    verified_sync(account, target.url)


@both_databases
def test_nul_characters_are_stored_or_reported(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish(members(member(1, "a\0b"), member(2, "")))
    result = verified_sync(account, target.url)
    stored = target.query(f'SELECT "FIRST_NAME" FROM {target.schema}.members ORDER BY "MEMBER_ID"')
    if not target.is_postgresql:
        assert (stored, result.notes) == ([("a\0b",), ("",)], ())
        return
    assert stored == [("a\ufffdb",), ("",)]
    note = "members: PostgreSQL cannot store NUL. U+FFFD, which replaces it, occurs {} times in the table."
    assert result.notes == (note.format(1),)
    for first, second, count in (("\0b\0", "", 2), ("\0", "\0\0", 3), ("\0", "\0", 2), ("b", "\ufffd", 1)):
        north.publish(members(member(1, first), member(2, second)))
        result = verified_sync(account, target.url)
        assert actions(result) == {"members": "delta"}
        assert result.notes == (note.format(count),)
        stored = target.query(f"SELECT sum(replaced_characters) FROM {target.schema}._daybreak_sync")
        assert stored == [(count,)]
    north.publish(members(member(1, "b"), member(2, "")))
    result = verified_sync(account, target.url)
    assert result.notes == ()


@one_database
def test_publication_during_a_sync_is_loaded(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)

    def publish_once(request: Request) -> Reply | None:
        if request.path.endswith(".delta.csv.gz"):
            north.before_reply = lambda _: None
            north.publish(members(member(8)))
        return None

    north.before_reply = publish_once
    verified_sync(account, target.url)
    north.before_reply = lambda _: None
    verified_sync(account, target.url)
    assert target.query(f"SELECT min(version), max(version) FROM {target.schema}._daybreak_sync") == [(3, 3)]


@one_database
def test_publication_during_a_dry_run_is_planned(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)

    def publish_once(request: Request) -> Reply | None:
        if request.path == f"/download/v1/files/{NORTH}":
            north.before_reply = lambda _: None
            north.publish(members(member(8)))
        return None

    north.before_reply = publish_once
    assert sync(account, target.url, dry_run=True).version == 3


@one_database
def test_full_file_that_stays_damaged_is_an_error(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)
    before = target.query(f"SELECT * FROM {target.schema}.members ORDER BY 1")
    north.close_chain()
    north.before_reply = lambda request: Reply(200, b"damaged") if "/links/" in request.path else None
    with pytest.raises(Damaged):
        sync(account, target.url)
    assert target.query(f"SELECT * FROM {target.schema}.members ORDER BY 1") == before
    assert target.query(f"SELECT max(version) FROM {target.schema}._daybreak_sync") == [(1,)]


@one_database
@pytest.mark.parametrize("full", [False, True])
def test_version_without_a_resource_is_refused(
    target: Target, north: Publisher, account: AccountFiles, *, full: bool
) -> None:
    publish_change(north, account, target)
    north.unlisted = "communities"
    with pytest.raises(WrongUse, match="does not list communities as csv"):
        sync(account, target.url, full=full)
    assert target.query(f"SELECT max(version) FROM {target.schema}._daybreak_sync") == [(1,)]


@one_database
def test_unavailable_service_changes_nothing(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)
    before = target.query(f"SELECT * FROM {target.schema}.members ORDER BY 1")
    north.before_reply = lambda request: Reply(503) if "/links/" in request.path else None
    with pytest.raises(ClientError):
        sync(account, target.url)
    assert target.query(f"SELECT * FROM {target.schema}.members ORDER BY 1") == before
    north.before_reply = lambda _: None
    verified_sync(account, target.url)


@both_databases
def test_parallel_sync_of_an_account_is_refused(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish_change(north, account, target)
    started, resume = threading.Event(), threading.Event()

    def wait(request: Request) -> Reply | None:
        if "/links/" in request.path:
            started.set()
            resume.wait(60)
        return None

    north.before_reply = wait
    first = threading.Thread(target=sync, args=(account, target.url))
    first.start()
    assert started.wait(60)
    with pytest.raises(Busy, match="another process"):
        sync(account, target.url, callbacks=Callbacks(lock_wait=LockWait(0)))
    resume.set()
    first.join()
    verified_sync(account, target.url)
