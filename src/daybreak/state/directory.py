"""Repository of accounts, seats and grants in bulk."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa

from daybreak.domain.identity import Account, Grant, Seat, folded_email
from daybreak.state.records import (
    ACCOUNT_COLUMNS,
    GRANT_COLUMNS,
    SEAT_COLUMNS,
    account_of,
    grant_of,
    seat_of,
)
from daybreak.state.schema import accounts, directory_syncs, grants, seats
from daybreak.state.statements import upsert


def free_email(seat_id: str) -> str:
    """Return an address that belongs to a seat and that no one can receive mail at."""
    return f"{seat_id}@former.invalid"


@dataclass(frozen=True, slots=True)
class Directory:
    """Accounts, seats and grants as one value."""

    accounts: tuple[Account, ...]
    seats: tuple[Seat, ...]
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """The latest synchronization with the platform. `failing_since` and `reason` are set if it failed, also in part."""

    attempted_at: datetime
    succeeded_at: datetime | None = None
    failing_since: datetime | None = None
    reason: str | None = None


class DirectoryStore:
    """Accounts, seats and grants in bulk, and the status of their synchronization."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def load(self) -> Directory:
        """Return the whole directory: accounts by client id, seats by email, grants by seat and client id."""
        run = self._connection.execute
        return Directory(
            accounts=tuple(account_of(row) for row in run(sa.select(*ACCOUNT_COLUMNS).order_by(accounts.c.client_id))),
            seats=tuple(seat_of(row) for row in run(sa.select(*SEAT_COLUMNS).order_by(seats.c.email_folded))),
            grants=tuple(
                grant_of(row) for row in run(sa.select(*GRANT_COLUMNS).order_by(grants.c.seat_id, grants.c.client_id))
            ),
        )

    def sync_status(self) -> SyncStatus | None:
        """Return the status of the latest synchronization, None before the first one."""
        columns = directory_syncs.c
        row = self._connection.execute(
            sa.select(columns.attempted_at, columns.succeeded_at, columns.failing_since, columns.reason)
        ).first()
        return None if row is None else SyncStatus(*row)

    def record_sync(self, now: datetime, failure: str | None) -> SyncStatus:
        """Record a synchronization, and return the status. `failure` is None after a complete one."""
        before = self.sync_status()
        if failure is None:
            status = SyncStatus(now, now)
        else:
            since = before.failing_since if before is not None and before.failing_since is not None else now
            status = SyncStatus(now, None if before is None else before.succeeded_at, since, failure)
        upsert(self._connection, directory_syncs, [{"name": "platform", **asdict(status)}], keys=("name",))
        return status

    def put_accounts(self, *new: Account) -> None:
        upsert(
            self._connection,
            accounts,
            [
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
                }
                for account in new
            ],
            keys=("client_id",),
        )

    def release_emails(self, *seats_to_change: Seat) -> None:
        """Free the present email of each seat that gets another one, so that another seat can have it."""
        if seats_to_change:
            free = free_email("")
            self._connection.execute(
                sa.update(seats)
                .where(seats.c.seat_id == sa.bindparam("seat"), seats.c.email_folded != sa.bindparam("folded"))
                .values(email_folded=seats.c.seat_id + free),
                [{"seat": seat.seat_id, "folded": folded_email(seat.email)} for seat in seats_to_change],
            )

    def put_seats(self, *new: Seat) -> None:
        """Insert or update seats. Raises Conflict if another seat has one of the emails."""
        change = ["email", "email_folded", "disabled"]
        for columns, batch in (
            ([*change, "password_hash"], [seat for seat in new if seat.password_hash is not None]),
            (change, [seat for seat in new if seat.password_hash is None]),
        ):
            rows = [
                {
                    "seat_id": seat.seat_id,
                    "email": seat.email,
                    "email_folded": folded_email(seat.email),
                    "password_hash": seat.password_hash,
                    "disabled": seat.disabled,
                    "operator": seat.operator,
                    "last_client_id": seat.last_client_id,
                }
                for seat in batch
            ]
            upsert(self._connection, seats, rows, keys=("seat_id",), change=columns)

    def put_grants(self, *new: Grant) -> None:
        """Insert or update grants. Raises Conflict if a seat or an account does not exist."""
        upsert(
            self._connection,
            grants,
            [
                {
                    "seat_id": grant.seat_id,
                    "client_id": grant.client_id,
                    "roles": grant.roles,
                    "data_export": grant.data_export,
                    "async_rest_api": grant.async_rest_api,
                }
                for grant in new
            ],
            keys=("seat_id", "client_id"),
        )

    def remove_grants(self, *old: Grant) -> None:
        """Delete grants by seat_id and client_id."""
        if old:
            self._connection.execute(
                sa.delete(grants).where(
                    grants.c.seat_id == sa.bindparam("seat"), grants.c.client_id == sa.bindparam("client")
                ),
                [{"seat": grant.seat_id, "client": grant.client_id} for grant in old],
            )
