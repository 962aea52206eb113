"""A stored version keeps its columns: the day the service adds a column, and the days around it."""

from typing import Any

import pytest

from daybreak_client import AccountFiles, Damaged, WrongUse, sync
from tests.integration.sync.conftest import Target, one_database, verified_sync
from tests.parts.delta_publisher import NORTH, SOUTH, Publisher, Row, member

NEW = "NICKNAME"


def upgraded(schema: dict[str, Any], kind: str = "string") -> dict[str, Any]:
    """Return the schema of a service whose Members have another column, the first one."""
    (described,) = [each for each in schema["resources"] if each["name"] == "members"]
    described["schema"]["fields"].insert(0, {"name": NEW, "type": kind})
    return schema


def publish(publisher: Publisher, *rows: Row, cell: str = "") -> None:
    """Publish Members. With a `cell`, their files have the column with this value."""
    had_column = bool(publisher.versions) and NEW.encode() in publisher.versions[-1].full["members"]
    version = publisher.publish({"members": list(rows)})
    if cell:
        header, *lines = version.full["members"].splitlines(keepends=True)
        content = [f'"{NEW}",'.encode() + header, *(f"{cell},".encode() + line for line in lines)]
        version.full["members"] = b"".join(content)
    if bool(cell) != had_column:
        version.changes["members"] = {"state": "full_required", "reason": "columns_changed"}


def nicknames(target: Target) -> list[tuple[object, object]]:
    return [tuple(row) for row in target.query(
        f'SELECT "FIRST_NAME", "{NEW}" FROM {target.schema}.members ORDER BY "MEMBER_ID", "LEADER_ID"')]  # fmt: skip


def test_day_of_a_new_column(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish(north, member(1, "Ana"), member(2, "Eva"))
    sync(account, target.url)
    north.columns = upgraded
    for full in (False, True, False):
        assert sync(account, target.url, dry_run=True, full=full).version == 1
        verified_sync(account, target.url, full=full)
    publish(north, member(1, "Ana"), member(3, "Ida"))
    result = verified_sync(account, target.url)
    assert {each.action for each in result.resources if each.resource == "members"} == {"delta"}
    publish(north, member(1, "Ana"), member(3, "Ida"), cell='"nick"')
    target.query(f"ALTER TABLE {target.schema}.members ADD COLUMN note varchar DEFAULT 'mine'")
    verified_sync(account, target.url)
    assert nicknames(target) == [("Ana", "nick"), ("Ida", "nick")]
    for full in (False, True):
        publish(north, member(1, "Ana"), member(3, "Uta"), cell='"other"')
        north.versions[-1].changes["members"] = {"state": "full_required", "reason": "larger_than_full"}
        verified_sync(account, target.url, full=full)
    assert nicknames(target) == [("Ana", "other"), ("Uta", "other")]
    assert target.query(f"SELECT DISTINCT note FROM {target.schema}.members") == [("mine",)]


def test_first_load_of_a_version_before_the_column(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish(north, member(1, "Ana"))
    north.columns = upgraded
    verified_sync(account, target.url)
    publish(north, member(1, "Ana"), cell='"nick"')
    verified_sync(account, target.url)


@pytest.mark.release
@pytest.mark.parametrize("full", [False, True])
def test_service_that_returns_to_an_earlier_version(
    target: Target, north: Publisher, account: AccountFiles, *, full: bool
) -> None:
    """Its schema lacks a column that stored files have; the next upgrade brings it back."""
    north.columns = lambda schema: upgraded(schema, "integer")
    publish(north, member(1, "Ana"), cell="7")
    sync(account, target.url)
    north.columns = lambda schema: schema
    verified_sync(account, target.url, full=full)
    publish(north, member(1, "Eva"))
    verified_sync(account, target.url, full=full)
    north.columns = lambda schema: upgraded(schema, "integer")
    publish(north, member(1, "Eva"), cell="9")
    verified_sync(account, target.url, full=full)
    assert nicknames(target) == [("Eva", 9)]


@pytest.mark.release
def test_accounts_get_the_column_on_different_days(
    target: Target, publishers: list[Publisher], accounts: list[AccountFiles]
) -> None:
    for publisher, account in zip(publishers, accounts, strict=True):
        publish(publisher, member(1, "Ana", publisher.client_id))
        sync(account, target.url)
        publisher.columns = upgraded
    for number in range(2):
        publish(publishers[number], member(1, "Eva", publishers[number].client_id), cell='"nick"')
        for account in accounts:
            verified_sync(account, target.url)
            verified_sync(account, target.url, full=True)
    assert nicknames(target) == [("Eva", "nick"), ("Eva", "nick")]
    assert {publisher.client_id for publisher in publishers} == {NORTH, SOUTH}


def test_delta_with_other_columns_is_not_applied(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish(north, member(1, "Ana"))
    sync(account, target.url)
    north.columns = upgraded
    version = north.publish({"members": [member(1, "Ida")]})
    header, *lines = version.full["members"].splitlines(keepends=True)
    version.full["members"] = b"".join([f'"{NEW}",'.encode() + header, *(b'"nick",' + line for line in lines)])
    verified_sync(account, target.url)
    assert nicknames(target) == [("Ida", "nick")]


def test_own_column_with_the_name_of_a_new_one_is_kept(target: Target, north: Publisher, account: AccountFiles) -> None:
    publish(north, member(1, "Ana"))
    sync(account, target.url)
    target.query(f"ALTER TABLE {target.schema}.members ADD COLUMN \"{NEW}\" varchar DEFAULT 'mine'")
    north.columns = upgraded
    verified_sync(account, target.url)
    publish(north, member(1, "Eva"), cell='"nick"')
    with pytest.raises(WrongUse, match=rf"column {NEW} to members.*column {NEW} of yours. Rename"):
        sync(account, target.url)
    assert nicknames(target) == [("Ana", "mine")]
    target.query(f'ALTER TABLE {target.schema}.members RENAME COLUMN "{NEW}" TO nick')
    verified_sync(account, target.url)
    assert target.query(f'SELECT "{NEW}", nick FROM {target.schema}.members') == [("nick", "mine")]


@one_database
@pytest.mark.parametrize(
    "header",
    [
        b'"MEMBER_ID"\n', b'"LEADER_ID","X"\n', b'"MEMBER_ID","LEADER_ID","MEMBER_ID"\n', b"MEMBER_ID,LEADER_ID\n",
        b'"MEMBER_ID","LEADER_ID","x; --"\n', b'"MEMBER_ID","LEADER_ID","_ROW"\n', b"", b'"' + b"A" * 99_999,
        b'"MEMBER_ID","LEADER_ID","leader_id"\n', b'"MEMBER_ID","LEADER_ID",""\n', b'"\xff"\n',
    ],
)  # fmt: skip
def test_hostile_header_is_damaged(target: Target, north: Publisher, account: AccountFiles, header: bytes) -> None:
    publish(north)
    north.versions[-1].full["members"] = header
    with pytest.raises(Damaged, match=r"members\.csv\.gz"):
        sync(account, target.url)
