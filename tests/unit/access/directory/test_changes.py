"""Changes by imports and syncs, and the limit on removals."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed_to

from daybreak.access.directory.changes import Change, check_removals, compare_directories
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.directory import Directory

ACCOUNT = Account("a" * 8 + "-0000-4000-8000-000000000001", "Ada", "Lo", "+15550100", "long_code")
OTHER = changed_to(ACCOUNT, client_id="a" * 8 + "-0000-4000-8000-000000000002", first_name="Bo")
SEAT = Seat("b" * 8 + "-0000-4000-8000-000000000001", "ada@example.org")
GRANT = Grant(SEAT.seat_id, ACCOUNT.client_id, ("owner",), data_export=True)
EMPTY = Directory((), (), ())
FULL = Directory((ACCOUNT, OTHER), (SEAT,), (GRANT,))


def test_first_sync_adds_all_and_the_next_changes_nothing() -> None:
    changes = compare_directories(EMPTY, FULL, complete=True)
    assert changes.accounts == [Change("added", account) for account in FULL.accounts]
    assert changes.seats == [Change("added", SEAT)]
    assert changes.grants == [Change("added", GRANT)]
    assert compare_directories(FULL, FULL, complete=True).is_empty


def test_only_a_sync_removes_missing_entries() -> None:
    wanted = Directory((ACCOUNT,), (), ())
    synced = compare_directories(FULL, wanted, complete=True)
    assert [(change.kind, change.entry.client_id) for change in synced.accounts] == [("removed", OTHER.client_id)]
    assert [(change.kind, change.entry.email) for change in synced.seats] == [("removed", SEAT.email)]
    assert synced.grants == [Change("removed", GRANT, GRANT)]
    assert compare_directories(FULL, wanted, complete=False).is_empty


def test_import_of_a_seat_replaces_its_grants() -> None:
    changes = compare_directories(FULL, Directory((), (SEAT,), ()), complete=False)
    assert changes.grants == [Change("removed", GRANT, GRANT)]


def test_operator_role_and_second_factor_stay_unchanged() -> None:
    current = replace(FULL, seats=(changed_to(SEAT, operator=True, second_factor_enrolled=True, password_hash="x"),))
    assert compare_directories(current, FULL, complete=True).is_empty


def test_explicit_deactivations_count_as_removals() -> None:
    wanted = Directory((changed_to(ACCOUNT, active=False), OTHER), (changed_to(SEAT, disabled=True),), (GRANT,))
    changes = compare_directories(FULL, wanted, complete=True)
    assert [change.kind for change in changes.accounts] == ["removed"]
    assert [change.kind for change in changes.seats] == ["removed"]


def test_sync_that_removes_too_much_is_refused() -> None:
    accounts = tuple(changed_to(ACCOUNT, client_id=f"a0000000-0000-4000-8000-{n:012}") for n in range(20))
    full = Directory(accounts, (), ())
    changes = compare_directories(full, Directory(accounts[:10], (), ()), complete=True)
    check_removals(changes, full, 0.5)
    with pytest.raises(OperatorError, match="10 of 20 accounts"):
        check_removals(changes, full, 0.49)


def test_few_removals_are_allowed_but_not_of_the_last_entries() -> None:
    changes = compare_directories(FULL, Directory((ACCOUNT,), (SEAT,), (GRANT,)), complete=True)
    check_removals(changes, FULL, 0)
    with pytest.raises(OperatorError, match="2 of 2 accounts"):
        check_removals(compare_directories(FULL, EMPTY, complete=True), FULL, 0.1)


def test_monthly_message_counts_are_a_separate_change() -> None:
    counted = changed_to(ACCOUNT, campaign_messages_monthly_used=7)
    changes = compare_directories(FULL, replace(FULL, accounts=(counted, OTHER)), complete=True)
    assert changes.accounts == [Change("counted", counted, ACCOUNT)]
    assert not changes.is_empty
    assert list(changes.lines()) == ["~ messages sent this month, of 1 account"]
    renamed = changed_to(counted, first_name="Ann")
    changes = compare_directories(FULL, replace(FULL, accounts=(renamed, OTHER)), complete=True)
    assert changes.accounts == [Change("changed", renamed, ACCOUNT)]


def test_changed_grants_keep_their_email_and_earlier_permissions() -> None:
    wanted = Directory((), (SEAT,), (changed_to(GRANT, data_export=False),))
    changes = compare_directories(FULL, wanted, complete=False)
    assert [change.before for change in changes.grants] == [GRANT]
    assert changes.emails == {SEAT.seat_id: SEAT.email}
    assert compare_directories(FULL, FULL, complete=False).emails == {}
