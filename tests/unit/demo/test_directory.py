"""The directory of the demo."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from daybreak.access.directory.document import read_directory
from daybreak.demo.directory import make_directory
from daybreak.demo.emails import ANALYST_EMAIL, CAREFUL_EMAIL, OPERATOR_EMAIL, OWNER_EMAIL, VISITOR_EMAIL
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)


def test_directory_has_every_kind_of_seat(tmp_path: Path) -> None:
    make_platform(tmp_path, PlatformSizes(leaders=12, members=600, messages=600), as_of=AS_OF)
    directory = make_directory(tmp_path, seed=7)
    assert make_directory(tmp_path, seed=7) == directory
    read = read_directory(directory.document)
    accounts = {account.client_id: account for account in read.directory.accounts}
    assert len(accounts) == 12
    inactive = [client_id for client_id, account in accounts.items() if not account.active]
    assert inactive == [directory.inactive_client_id]
    requiring = [client_id for client_id, account in accounts.items() if account.second_factor_required]
    assert directory.seat(CAREFUL_EMAIL).client_ids == tuple(requiring)
    assert len(requiring) == 1
    seeds = {directory.seat(email).totp_seed for email in (CAREFUL_EMAIL, OPERATOR_EMAIL)}
    assert len(seeds) == 2
    assert None not in seeds
    assert requiring[0] not in directory.seat(OWNER_EMAIL).client_ids
    assert len(directory.seat(OWNER_EMAIL).client_ids) == 6
    assert directory.seat(OPERATOR_EMAIL).operator
    grants = {(grant.seat_id, grant.client_id): grant for grant in read.directory.grants}
    visitor = directory.seat(VISITOR_EMAIL)
    assert not grants[visitor.seat_id, visitor.client_ids[0]].data_export
    owner, analyst = directory.seat(OWNER_EMAIL), directory.seat(ANALYST_EMAIL)
    assert grants[owner.seat_id, owner.client_ids[0]].async_rest_api
    assert accounts[owner.client_ids[0]].api_tokens_enabled
    assert not grants[analyst.seat_id, analyst.client_ids[0]].async_rest_api
    assert read.passwords == {seat.seat_id: seat.password for seat in directory.seats}


@pytest.mark.parametrize("leaders", [1, 6])
def test_small_platform_has_only_regular_accounts(tmp_path: Path, leaders: int) -> None:
    make_platform(tmp_path, PlatformSizes(leaders=leaders, members=30, messages=30), as_of=AS_OF)
    directory = make_directory(tmp_path, seed=1)
    accounts = read_directory(directory.document).directory.accounts
    assert len(accounts) == leaders
    assert all(account.active and not account.second_factor_required for account in accounts)
    assert directory.inactive_client_id is None
