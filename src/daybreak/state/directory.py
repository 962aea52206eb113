"""Accounts, seats and grants in bulk."""

from __future__ import annotations

import sqlalchemy as sa

from daybreak.domain.identity import Account, Grant, Seat
from daybreak.ports import Directory
from daybreak.state.records import (
    ACCOUNT_COLUMNS,
    GRANT_COLUMNS,
    SEAT_COLUMNS,
    account_of,
    grant_of,
    seat_of,
)
from daybreak.state.schema import accounts, grants, seats
from daybreak.state.seats import folded
from daybreak.state.statements import upsert


class SqlDirectory:
    """The DirectoryStore on a connection with a transaction open."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def load(self) -> Directory:
        """Everything, accounts by client id, seats by email, grants by seat and client id."""
        run = self._connection.execute
        return Directory(
            accounts=tuple(account_of(row) for row in run(sa.select(*ACCOUNT_COLUMNS).order_by(accounts.c.client_id))),
            seats=tuple(seat_of(row) for row in run(sa.select(*SEAT_COLUMNS).order_by(seats.c.email_folded))),
            grants=tuple(
                grant_of(row) for row in run(sa.select(*GRANT_COLUMNS).order_by(grants.c.seat_id, grants.c.client_id))
            ),
        )

    def put_account(self, account: Account) -> None:
        upsert(
            self._connection,
            accounts,
            {
                "client_id": account.client_id,
                "first_name": account.first_name,
                "last_name": account.last_name,
                "phone_number": account.phone_number,
                "phone_number_type": account.phone_number_type,
                "active": account.active,
                "campaign_messages_monthly_threshold": account.campaign_messages_monthly_threshold,
                "campaign_messages_monthly_used": account.campaign_messages_monthly_used,
                "api_tokens_enabled": account.api_tokens_enabled,
                "second_factor_required": account.second_factor_required,
                "billing_provided": account.billing.billing_provided,
                "billing_required": account.billing.billing_required,
                "trial_length_days": account.billing.trial_length_days,
                "trial_started": account.billing.trial_started,
            },
            keys=("client_id",),
        )

    def put_seat(self, seat: Seat) -> None:
        """Raises Conflict when another seat holds the email."""
        values = {
            "seat_id": seat.seat_id,
            "email": seat.email,
            "email_folded": folded(seat.email),
            "password_hash": seat.password_hash,
            "disabled": seat.disabled,
            "operator": seat.operator,
            "last_client_id": seat.last_client_id,
        }
        change = ["email", "email_folded", "disabled"]
        if seat.password_hash is not None:
            change.append("password_hash")
        upsert(self._connection, seats, values, keys=("seat_id",), change=change)

    def put_grant(self, grant: Grant) -> None:
        """Raises Conflict when the seat or the account is not there."""
        upsert(
            self._connection,
            grants,
            {
                "seat_id": grant.seat_id,
                "client_id": grant.client_id,
                "roles": grant.roles,
                "data_export": grant.data_export,
                "async_rest_api": grant.async_rest_api,
            },
            keys=("seat_id", "client_id"),
        )

    def remove_grant(self, seat_id: str, client_id: str) -> None:
        self._connection.execute(sa.delete(grants).where(grants.c.seat_id == seat_id, grants.c.client_id == client_id))

    def account(self, client_id: str) -> Account | None:
        row = self._connection.execute(sa.select(*ACCOUNT_COLUMNS).where(accounts.c.client_id == client_id)).first()
        return None if row is None else account_of(row)
