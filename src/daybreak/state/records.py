"""Columns of domain values in rows, and conversion of the rows.

SQLAlchemy converts each column, so `Device(*row)` is the device of a row of DEVICE_COLUMNS. The functions also convert
rows of a PreparedRead, which contain the values of the driver. Each takes the values of the columns that its docstring
names.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import msgspec
import sqlalchemy as sa

from daybreak.domain.identity import Account, AccountStatus, ApiToken, BillingState, Device, Grant, Seat, Session
from daybreak.state.columns import instant_of, instant_or_none, strings_of
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
TOKEN_COLUMNS = columns_of(ApiToken, api_tokens)
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


def grant_of(seat_id: str, client_id: str, roles: Any, data_export: Any, async_rest_api: Any) -> Grant:
    """Return the grant of a row of GRANT_COLUMNS."""
    return Grant(seat_id, client_id, strings_of(roles), bool(data_export), bool(async_rest_api))


def seat_of(*row: Any) -> Seat:
    """Return the seat of a row of SEAT_COLUMNS."""
    seat_id, email, password_hash, disabled, operator, enrolled, *others = row
    return Seat(seat_id, email, password_hash, bool(disabled), bool(operator), bool(enrolled), *others)


def session_of(*row: Any) -> Session:
    """Return the session of a row of SESSION_COLUMNS."""
    sid, seat_id, started, expires, amr, awaiting, device_id, ended, reason, kind, proved, seen = row
    started, expires, ended = instant_of(started), instant_of(expires), instant_or_none(ended)
    proved, seen, amr = instant_or_none(proved), instant_or_none(seen), strings_of(amr)
    return Session(sid, seat_id, started, expires, amr, bool(awaiting), device_id, ended, reason, kind, proved, seen)


def token_of(*row: Any) -> ApiToken:
    """Return the API token of a row of TOKEN_COLUMNS."""
    token_id, digest, seat_id, client_id, name, last_four, *rest = row
    created, expires, used, revoked, reason, email, gzip_as, allowed = rest
    created, expires = instant_of(created), instant_or_none(expires)
    used, revoked = instant_or_none(used), instant_or_none(revoked)
    networks = () if allowed is None else strings_of(allowed)
    return ApiToken(
        token_id, digest, seat_id, client_id, name, last_four, created, expires, used, revoked, reason, email, gzip_as,
        networks,
    )  # fmt: skip


def credential_parts(row: Sequence[Any]) -> tuple[Seat, AccountStatus | None, Grant | None, int]:
    """Return the seat, account, grant and number of revoked keys of a row of CREDENTIAL_COLUMNS.

    Account and grant are None without a grant.
    """
    seat = seat_of(*row[:_SEAT_END])
    client_id, roles, data_export, async_rest_api, active, tokens, factor, revoked = row[_SEAT_END:]
    if client_id is None:
        return seat, None, None, int(revoked)
    grant = grant_of(seat.seat_id, client_id, roles, data_export, async_rest_api)
    return seat, AccountStatus(client_id, bool(active), bool(tokens), bool(factor)), grant, int(revoked)
