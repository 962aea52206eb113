"""What a standing is made of: the columns and joins that sessions and API tokens share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.records import ACCOUNT_COLUMNS, GRANT_COLUMNS, SEAT_COLUMNS, account_of, grant_of, seat_of
from daybreak.state.schema import accounts, grants, seats

_own_grants = grants.alias("own_grants")
_own_accounts = accounts.alias("own_accounts")

# Some active account in the seat's reach asks for a second factor.
REACH_REQUIRES = (
    sa.exists()
    .where(
        _own_grants.c.seat_id == seats.c.seat_id,
        _own_accounts.c.client_id == _own_grants.c.client_id,
        _own_accounts.c.active.is_(True),
        _own_accounts.c.second_factor_required.is_(True),
    )
    .label("reach_requires_second_factor")
)

STANDING_COLUMNS = (REACH_REQUIRES, *SEAT_COLUMNS, *GRANT_COLUMNS, *ACCOUNT_COLUMNS)

_SEAT_END = 1 + len(SEAT_COLUMNS)
_GRANT_END = _SEAT_END + len(GRANT_COLUMNS)


def standing_of(row: Sequence[Any]) -> tuple[Seat, Account | None, Grant | None, bool]:
    """Seat, account, grant and `reach_requires_second_factor` of a row of STANDING_COLUMNS.
    The account is given only with a grant on it."""
    grant_row = row[_SEAT_END:_GRANT_END]
    if grant_row[0] is None:
        return seat_of(row[1:_SEAT_END]), None, None, bool(row[0])
    return seat_of(row[1:_SEAT_END]), account_of(row[_GRANT_END:]), grant_of(grant_row), bool(row[0])
