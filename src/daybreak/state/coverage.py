"""Repository that compares the accounts with the Leaders of snapshots. The database counts: there may be 100,000."""

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from daybreak.domain.identity import Account
from daybreak.state.records import ACCOUNT_COLUMNS, account_of
from daybreak.state.schema import accounts, snapshot_leaders
from daybreak.state.statements import Store


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of Leaders of a snapshot and of active accounts, of these without files, and of those without account."""

    leaders: int
    active: int
    without_files: int
    without_account: int


def _is_leader(fence: int) -> sa.Exists:
    leaders = snapshot_leaders.c
    return sa.exists().where(leaders.fence == fence, leaders.client_id == accounts.c.client_id)


class CoverageStore(Store):
    """Accounts and Leaders. A `fence` identifies the snapshot; 0 is that of none."""

    def count(self, fence: int) -> Coverage:
        is_account = sa.exists().where(accounts.c.client_id == snapshot_leaders.c.client_id)
        of_snapshot = snapshot_leaders.c.fence == fence
        return Coverage(
            leaders=self._number_of(snapshot_leaders, of_snapshot),
            active=self._number_of(accounts, accounts.c.active),
            without_files=self._number_of(accounts, accounts.c.active, ~_is_leader(fence)),
            without_account=self._number_of(snapshot_leaders, of_snapshot, ~is_account),
        )

    def count_leaders(self, fences: Collection[int]) -> dict[int, int]:
        """Return the number of Leaders of each snapshot that has any."""
        fence = snapshot_leaders.c.fence
        found = self._execute(sa.select(fence, sa.func.count()).where(fence.in_(fences)).group_by(fence))
        return dict(found.all())

    def without_files(self, fence: int, offset: int, limit: int) -> list[Account]:
        """Return active accounts that are no Leaders of the snapshot, in the order that the database gives names."""
        name = sa.func.lower(accounts.c.first_name + " " + accounts.c.last_name)
        return self._all(
            sa.select(*ACCOUNT_COLUMNS)
            .where(accounts.c.active, ~_is_leader(fence))
            .order_by(name, accounts.c.client_id)
            .offset(offset)
            .limit(limit),
            account_of,
        )
