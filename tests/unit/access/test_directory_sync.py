"""What a sync changes, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed_to

from daybreak.access.directory_sync import directory_changes, require_modest
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.ports.access_stores import Directory

ACCOUNT = Account("a" * 8 + "-0000-4000-8000-000000000001", "Ada", "Lo", "+15550100", "long_code")
OTHER = changed_to(ACCOUNT, client_id="a" * 8 + "-0000-4000-8000-000000000002", first_name="Bo")
SEAT = Seat("b" * 8 + "-0000-4000-8000-000000000001", "ada@example.org")
GRANT = Grant(SEAT.seat_id, ACCOUNT.client_id, ("owner",), data_export=True)
NOBODY = Directory((), (), ())
FULL = Directory((ACCOUNT, OTHER), (SEAT,), (GRANT,))


def test_an_empty_state_takes_everything_and_the_same_again_changes_nothing() -> None:
    changes = directory_changes(NOBODY, FULL, whole=True)
    assert (changes.added_accounts, changes.added_seats, changes.added_grants) == (
        FULL.accounts,
        FULL.seats,
        FULL.grants,
    )
    assert directory_changes(FULL, FULL, whole=True).is_empty


def test_a_sync_takes_away_what_is_not_named_and_an_import_does_not() -> None:
    wanted = Directory((ACCOUNT,), (), ())
    synced = directory_changes(FULL, wanted, whole=True)
    assert [account.client_id for account in synced.deactivated_accounts] == [OTHER.client_id]
    assert [seat.email for seat in synced.disabled_seats] == [SEAT.email]
    assert synced.removed_grants == (GRANT,)
    assert directory_changes(FULL, wanted, whole=False).is_empty


def test_an_import_that_names_a_seat_settles_its_grants() -> None:
    changes = directory_changes(FULL, Directory((), (SEAT,), ()), whole=False)
    assert changes.removed_grants == (GRANT,)


def test_the_operator_role_and_the_second_factor_are_not_the_lists_to_change() -> None:
    current = replace(FULL, seats=(changed_to(SEAT, operator=True, second_factor_enrolled=True, password_hash="x"),))
    assert directory_changes(current, FULL, whole=True).is_empty


def test_deactivation_and_disabling_by_name_count_as_removals() -> None:
    wanted = Directory((changed_to(ACCOUNT, active=False), OTHER), (changed_to(SEAT, disabled=True),), (GRANT,))
    changes = directory_changes(FULL, wanted, whole=True)
    assert len(changes.deactivated_accounts) == len(changes.disabled_seats) == 1
    assert not changes.changed_accounts
    assert not changes.changed_seats


def test_a_sync_that_would_take_away_too_much_is_refused() -> None:
    changes = directory_changes(FULL, Directory((ACCOUNT,), (SEAT,), (GRANT,)), whole=True)
    require_modest(changes, FULL, 0.5)
    with pytest.raises(OperatorError, match="1 of 2 accounts"):
        require_modest(changes, FULL, 0.49)


def test_messages_sent_this_month_are_a_change_of_their_own() -> None:
    counted = changed_to(ACCOUNT, campaign_messages_monthly_used=7)
    changes = directory_changes(FULL, replace(FULL, accounts=(counted, OTHER)), whole=True)
    assert changes.counted_accounts == (counted,)
    assert not changes.changed_accounts
    assert not changes.is_empty
    assert list(changes.lines()) == ["~ messages sent this month, of 1 accounts"]
    renamed = changed_to(counted, first_name="Ann")
    changes = directory_changes(FULL, replace(FULL, accounts=(renamed, OTHER)), whole=True)
    assert changes.changed_accounts == (renamed,)
    assert not changes.counted_accounts
