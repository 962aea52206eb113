"""Repository of requested runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

import sqlalchemy as sa

from daybreak.state.columns import KEY, Instant
from daybreak.state.schema import metadata


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that an operator requested. `day` is a failed day to build again, None for a manual run."""

    request_id: str
    requested_at: datetime
    requested_by: str
    day: date | None = None


run_requests = sa.Table(
    "run_requests",
    metadata,
    sa.Column("request_id", KEY, primary_key=True),
    sa.Column("requested_at", Instant, nullable=False),
    sa.Column("requested_by", sa.Text, nullable=False),
    sa.Column("day", sa.Date),
    sa.Column("taken_at", Instant),
)

_COLUMNS = (
    run_requests.c.request_id,
    run_requests.c.requested_at,
    run_requests.c.requested_by,
    run_requests.c.day,
)


class RunRequestStore:
    """Requested runs. Each is taken by one builder."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, request: RunRequest) -> None:
        self._connection.execute(
            sa.insert(run_requests).values(
                request_id=request.request_id,
                requested_at=request.requested_at,
                requested_by=request.requested_by,
                day=request.day,
            )
        )

    def waiting(self, since: datetime) -> list[RunRequest]:
        """Return requests since that instant that no builder has taken, oldest first."""
        rows = self._connection.execute(
            sa.select(*_COLUMNS)
            .where(run_requests.c.taken_at.is_(None), run_requests.c.requested_at >= since)
            .order_by(run_requests.c.requested_at, run_requests.c.request_id)
        )
        return [RunRequest(*row) for row in rows]

    def take(self, request_id: str, now: datetime) -> bool:
        """Mark a request as taken, atomically. Return False if another builder has taken it."""
        taken = self._connection.execute(
            sa.update(run_requests)
            .where(run_requests.c.request_id == request_id, run_requests.c.taken_at.is_(None))
            .values(taken_at=now)
        )
        return taken.rowcount == 1

    def delete_before(self, before: datetime) -> int:
        """Delete requests made before that instant and return their number."""
        deleted = self._connection.execute(sa.delete(run_requests).where(run_requests.c.requested_at < before))
        return deleted.rowcount
