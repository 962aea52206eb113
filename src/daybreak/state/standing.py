"""What a standing is made of: the columns and joins that sessions and API tokens share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daybreak.domain.identity import AccountStanding, Grant, Seat
from daybreak.state.records import GRANT_COLUMNS, SEAT_COLUMNS, grant_of, seat_of
from daybreak.state.schema import accounts

STANDING_COLUMNS = (
    *SEAT_COLUMNS,
    *GRANT_COLUMNS,
    accounts.c.client_id,
    accounts.c.active,
    accounts.c.api_tokens_enabled,
    accounts.c.second_factor_required,
)

_SEAT_END = len(SEAT_COLUMNS)
_GRANT_END = _SEAT_END + len(GRANT_COLUMNS)


def standing_of(row: Sequence[Any]) -> tuple[Seat, AccountStanding | None, Grant | None]:
    """Seat, account and grant of a row of STANDING_COLUMNS. The account is given only with a grant on it."""
    seat, grant_row = seat_of(row[:_SEAT_END]), row[_SEAT_END:_GRANT_END]
    if grant_row[0] is None:
        return seat, None, None
    client_id, active, tokens, factor = row[_GRANT_END:]
    return seat, AccountStanding(client_id, bool(active), bool(tokens), bool(factor)), grant_of(grant_row)
