"""Accounts compared with the Leaders of snapshots."""

from daybreak.state.coverage import Coverage
from daybreak.state.database import Database
from daybreak.state.stores import Stores
from tests.integration.state.values import LEASE_SECONDS, NOW, account, run, uuid


def test_accounts_without_files_are_counted_and_listed_in_pages(state: Database) -> None:
    unnamed = account(9, first_name="", last_name="")
    active = [account(1, first_name="zoe"), account(2, first_name="Ann"), account(3, first_name="bea"), unnamed]
    state.write(lambda stores: stores.directory.put_accounts(*active, account(4, active=False)))

    def add(stores: Stores, number: int, *leaders: int) -> int:
        begun = stores.snapshots.begin_manual(run(number, day=None), NOW, LEASE_SECONDS)
        stores.snapshots.add_leaders(begun.snapshot_id, begun.fence, [uuid(leader) for leader in leaders])
        return begun.fence

    older = state.write(lambda stores: add(stores, 7, 1, 2, 3))
    newer = state.write(lambda stores: add(stores, 8, 3, 4, 99))
    assert state.read(lambda stores: stores.coverage.count(newer)) == Coverage(3, 4, 3, 1)
    assert state.read(lambda stores: stores.coverage.count(0)) == Coverage(0, 4, 4, 0)
    assert state.read(lambda stores: stores.coverage.count_leaders([older, newer, 0])) == {older: 3, newer: 3}
    listed = [unnamed, active[1], active[0]]
    assert state.read(lambda stores: stores.coverage.without_files(newer, 0, 10)) == listed
    assert state.read(lambda stores: stores.coverage.without_files(newer, 1, 1)) == listed[1:2]
