"""Repository of accounts, seats and grants in bulk."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from daybreak.domain.identity import Account, Grant, Seat, folded_email
from daybreak.state.records import (
    ACCOUNT_COLUMNS,
    GRANT_COLUMNS,
    SEAT_COLUMNS,
    account_of,
    account_values,
    columns_of,
    values_of,
)
from daybreak.state.schema import accounts, directory_syncs, grants, seats
from daybreak.state.statements import Store

_IDS_PER_STATEMENT = 1000


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


class DirectoryStore(Store):
    """Accounts, seats and grants in bulk, and the status of their synchronization."""

    def load(self) -> Directory:
        """Return the whole directory: accounts by client id, seats by email, grants by seat and client id."""
        found_grants = sa.select(*GRANT_COLUMNS).order_by(grants.c.seat_id, grants.c.client_id)
        return Directory(
            accounts=tuple(self._all(sa.select(*ACCOUNT_COLUMNS).order_by(accounts.c.client_id), account_of)),
            seats=tuple(self._all(sa.select(*SEAT_COLUMNS).order_by(seats.c.email_folded), Seat)),
            grants=tuple(self._all(found_grants, Grant)),
        )

    def account(self, client_id: str) -> Account | None:
        return self._first(sa.select(*ACCOUNT_COLUMNS).where(accounts.c.client_id == client_id), account_of)

    def names(self, client_ids: Collection[str]) -> dict[str, str]:
        """Return the names of the accounts among these ids."""
        ids, names = list(client_ids), {}
        for start in range(0, len(ids), _IDS_PER_STATEMENT):
            some = accounts.c.client_id.in_(ids[start : start + _IDS_PER_STATEMENT])
            found = self._all(sa.select(*ACCOUNT_COLUMNS).where(some), account_of)
            names.update({account.client_id: account.name for account in found})
        return names

    def sync_status(self) -> SyncStatus | None:
        """Return the status of the latest synchronization, None before the first one."""
        return self._first(sa.select(*columns_of(SyncStatus, directory_syncs)), SyncStatus)

    def record_sync(self, now: datetime, failure: str | None) -> SyncStatus:
        """Record a synchronization, and return the status. `failure` is None after a complete one."""
        before = self.sync_status()
        if failure is None:
            status = SyncStatus(now, now)
        else:
            since = before.failing_since if before is not None and before.failing_since is not None else now
            status = SyncStatus(now, None if before is None else before.succeeded_at, since, failure)
        self._upsert(directory_syncs, [{"name": "platform", **values_of(status)}])
        return status

    def put_accounts(self, *new: Account) -> None:
        self._upsert(accounts, [account_values(account) for account in new])

    def release_emails(self, *seats_to_change: Seat) -> None:
        """Free the present email of each seat that gets another one, so that another seat can have it."""
        if seats_to_change:
            free = free_email("")
            self._execute(
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
            rows = [values_of(seat) | {"email_folded": folded_email(seat.email)} for seat in batch]
            for row in rows:
                del row["second_factor_enrolled"]
            self._upsert(seats, rows, change=columns)

    def put_grants(self, *new: Grant) -> None:
        """Insert or update grants. Raises Conflict if a seat or an account does not exist."""
        self._upsert(grants, [values_of(grant) for grant in new])

    def remove_grants(self, *old: Grant) -> None:
        """Delete grants by seat_id and client_id."""
        if old:
            self._execute(
                sa.delete(grants).where(
                    grants.c.seat_id == sa.bindparam("seat"), grants.c.client_id == sa.bindparam("client")
                ),
                [{"seat": grant.seat_id, "client": grant.client_id} for grant in old],
            )
