"""What a standing is made of: the columns and joins that sessions and API tokens share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.records import ACCOUNT_COLUMNS, GRANT_COLUMNS, SEAT_COLUMNS, account_of, grant_of, seat_of

STANDING_COLUMNS = (*SEAT_COLUMNS, *GRANT_COLUMNS, *ACCOUNT_COLUMNS)

_SEAT_END = len(SEAT_COLUMNS)
_GRANT_END = _SEAT_END + len(GRANT_COLUMNS)


def standing_of(row: Sequence[Any]) -> tuple[Seat, Account | None, Grant | None]:
    """Seat, account and grant of a row of STANDING_COLUMNS. The account is given only with a grant on it."""
    seat, grant_row = seat_of(row[:_SEAT_END]), row[_SEAT_END:_GRANT_END]
    if grant_row[0] is None:
        return seat, None, None
    return seat, account_of(row[_GRANT_END:]), grant_of(grant_row)
