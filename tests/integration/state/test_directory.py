"""Accounts, seats, grants and nodes."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace as changed_to

from daybreak.domain.errors import Conflict
from daybreak.domain.identity import BillingState, Grant
from daybreak.state.database import Database
from daybreak.state.directory import Directory
from daybreak.state.nodes import Node
from tests.integration.state.values import ANN, BEA, NOW, SEAT, account, seat, two_accounts, uuid


def test_directory_round_trips_and_writes_are_idempotent(state: Database) -> None:
    state.write(two_accounts)
    state.write(two_accounts)
    assert state.read(lambda stores: stores.directory.load()) == Directory(
        accounts=(ANN, BEA),
        seats=(SEAT,),
        grants=(
            Grant(SEAT.seat_id, ANN.client_id, ("owner", "admin"), data_export=True),
            Grant(SEAT.seat_id, BEA.client_id, ("analyst",), async_rest_api=True),
        ),
    )


def test_repeated_write_updates_the_row(state: Database) -> None:
    state.write(two_accounts)
    changed = changed_to(ANN, active=False, api_tokens_enabled=True, billing=BillingState(trial_started=True))
    state.write(lambda stores: stores.directory.put_accounts(changed))
    assert state.read(lambda stores: stores.directory.load()).accounts[0] == changed
    state.write(lambda stores: stores.directory.put_grants(Grant(SEAT.seat_id, ANN.client_id, ("analyst",))))
    assert state.read(lambda stores: stores.directory.load()).grants[0].roles == ("analyst",)


def test_updated_seat_keeps_password_and_operator_role(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.seats.set_operator(SEAT.seat_id, operator=True))
    state.write(lambda stores: stores.seats.set_last_client(SEAT.seat_id, BEA.client_id))
    moved = changed_to(SEAT, email="Moved@example.org", password_hash=None, disabled=True)
    state.write(lambda stores: stores.directory.put_seats(moved))
    assert state.read(lambda stores: stores.seats.by_email("moved@EXAMPLE.org")) == changed_to(
        moved, password_hash=SEAT.password_hash, operator=True, last_client_id=BEA.client_id
    )


def test_two_seats_never_share_an_email(state: Database) -> None:
    state.write(two_accounts)
    with pytest.raises(Conflict):
        state.write(lambda stores: stores.directory.put_seats(seat(2, email=SEAT.email.upper())))


def test_grant_requires_its_seat_and_account(state: Database) -> None:
    state.write(two_accounts)
    with pytest.raises(Conflict):
        state.write(lambda stores: stores.directory.put_grants(Grant(uuid(9), ANN.client_id)))
    with pytest.raises(Conflict):
        state.write(lambda stores: stores.directory.put_grants(Grant(SEAT.seat_id, uuid(9))))


def test_accounts_have_the_same_order_on_both_databases(state: Database) -> None:
    ids = ["0a-b", "0aa", "0A", "0-z", "é"]
    for client_id in ids:
        state.write(lambda stores, it=client_id: stores.directory.put_accounts(changed_to(account(1), client_id=it)))  # type: ignore[misc]
    loaded = state.read(lambda stores: stores.directory.load())
    assert [one.client_id for one in loaded.accounts] == sorted(ids)


def test_clock_that_differs_from_the_database_is_a_fault(state: Database, state_url: str) -> None:
    def faults_with(offset: timedelta) -> list[tuple[int | str, ...]]:
        def clock() -> datetime:
            return datetime.now(UTC) + offset

        began = datetime.now(UTC)
        state.write(lambda stores: stores.nodes.beat(lambda at: Node("n1", "host-a", "1", NOW, at, ()), clock))
        (node,) = state.read(lambda stores: stores.nodes.list_seen(NOW))
        assert state_url.startswith("sqlite") or abs(node.seen_at - began) < timedelta(minutes=1), "the database's time"
        faults = state.read(lambda stores: stores.task_faults.list_all())
        return [(fault.failures, *re.findall("ahead of|behind", fault.error)) for fault in faults]

    if state_url.startswith("sqlite"):
        assert faults_with(timedelta(hours=1)) == []
        return
    assert faults_with(timedelta(seconds=50)) == []
    # The alarm fires on the third failure in a row.
    assert [faults_with(timedelta(minutes=minutes)) for minutes in (2, 2, -2)] == [
        [(1, "ahead of")], [(2, "ahead of")], [(3, "behind")]
    ]  # fmt: skip
    assert faults_with(timedelta(0)) == []
    assert faults_with(timedelta(minutes=2)) == [(1, "ahead of")]


def test_nodes_with_recent_heartbeats_are_listed(state: Database) -> None:
    node = Node("n1", "host-a", "0.1", NOW, NOW, ("web", "builder"), "a1")
    state.write(lambda stores: stores.nodes.record_heartbeat(node))
    later = replace(node, seen_at=NOW + timedelta(seconds=30))
    state.write(lambda stores: stores.nodes.record_heartbeat(later))
    state.write(lambda stores: stores.nodes.record_heartbeat(replace(node, node_id="n0")))
    assert state.read(lambda stores: stores.nodes.list_seen(NOW + timedelta(seconds=1))) == [later]
    assert len(state.read(lambda stores: stores.nodes.list_seen(NOW))) == 2


def test_any_number_of_accounts_is_named(state: Database) -> None:
    added = [account(number) for number in range(2_500)]
    state.write(lambda stores: stores.directory.put_accounts(*added))
    names = state.read(lambda stores: stores.directory.names([uuid(9_999), *(each.client_id for each in added)]))
    assert names == {each.client_id: each.name for each in added}
