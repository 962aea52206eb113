"""Columns of domain values in rows: `Device(*row)` is the device of a row of DEVICE_COLUMNS."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import msgspec
import sqlalchemy as sa

from daybreak.domain.identity import Account, AccountStatus, ApiToken, BillingState, Device, Grant, Seat, Session
from daybreak.state.schema import accounts, api_tokens, devices, grants, seats, sessions
from daybreak.state.service_tables import revoked_keys


def columns_of(kind: type[Any], table: sa.Table) -> tuple[sa.Column[Any], ...]:
    """Return the columns of a table with the names of a struct's fields, in their order."""
    names = kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else (each.name for each in fields(kind))
    return tuple(table.c[name] for name in names)


def values_of(value: Any) -> dict[str, Any]:
    """Return the fields of a struct as the values of a new row."""
    return msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else asdict(value)


ACCOUNT_COLUMNS = tuple(accounts.columns)
GRANT_COLUMNS = tuple(grants.columns)
SEAT_COLUMNS = (
    seats.c.seat_id,
    seats.c.email,
    seats.c.password_hash,
    seats.c.disabled,
    seats.c.operator,
    seats.c.sealed_seed.is_not(None).label("second_factor_enrolled"),
    seats.c.last_client_id,
    seats.c.time_zone,
    seats.c.number_format,
)
SESSION_COLUMNS = columns_of(Session, sessions)
DEVICE_COLUMNS = columns_of(Device, devices)
TOKEN_COLUMNS = (
    *columns_of(ApiToken, api_tokens)[:-1],
    # The last field, `allowed_networks`.
    sa.func.coalesce(api_tokens.c.allowed_networks, sa.literal_column("'[]'")),
)
# Columns that the queries for sessions and API tokens share.
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


def account_of(*row: Any) -> Account:
    """Return the account of a row of ACCOUNT_COLUMNS."""
    return msgspec.structs.replace(Account(*row[:-4]), billing=BillingState(*row[-4:]))


def account_values(account: Account) -> dict[str, Any]:
    """Return the values of the row of an account."""
    values = values_of(account)
    return values | values_of(values.pop("billing"))


def credential_parts(row: Sequence[Any]) -> tuple[Seat, AccountStatus | None, Grant | None, int]:
    """Return the seat, account, grant and number of revoked keys of a row of CREDENTIAL_COLUMNS.

    Account and grant are None without a grant.
    """
    seat = Seat(*row[:_SEAT_END])
    client_id, roles, data_export, async_rest_api, active, tokens, factor, revoked = row[_SEAT_END:]
    if client_id is None:
        return seat, None, None, revoked
    grant = Grant(seat.seat_id, client_id, roles, data_export, async_rest_api)
    return seat, AccountStatus(client_id, active, tokens, factor), grant, revoked
