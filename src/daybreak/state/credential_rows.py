"""Columns that the queries for sessions and API tokens share, and their conversion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from daybreak.domain.identity import AccountStatus, Grant, Seat
from daybreak.state.columns import strings_of
from daybreak.state.records import SEAT_COLUMNS, seat_of
from daybreak.state.revoked_keys import revoked_keys
from daybreak.state.schema import accounts, grants

CREDENTIAL_COLUMNS = (
    *SEAT_COLUMNS,
    grants.c.client_id,
    grants.c.roles,
    grants.c.data_export,
    grants.c.async_rest_api,
    accounts.c.active,
    accounts.c.api_tokens_enabled,
    accounts.c.second_factor_required,
    sa.select(sa.func.count()).select_from(revoked_keys).scalar_subquery(),
)

_SEAT_END = len(SEAT_COLUMNS)


def credential_parts(row: Sequence[Any]) -> tuple[Seat, AccountStatus | None, Grant | None, int]:
    """Return the seat, account, grant and number of revoked keys of a row of CREDENTIAL_COLUMNS.

    Account and grant are None without a grant.
    """
    seat = seat_of(row[:_SEAT_END])
    client_id, roles, data_export, async_rest_api, active, tokens, factor, revoked = row[_SEAT_END:]
    if client_id is None:
        return seat, None, None, int(revoked)
    grant = Grant(seat.seat_id, client_id, strings_of(roles), bool(data_export), bool(async_rest_api))
    return seat, AccountStatus(client_id, bool(active), bool(tokens), bool(factor)), grant, int(revoked)
