"""Repository of requested runs."""

from dataclasses import dataclass
from datetime import date, datetime

import sqlalchemy as sa

from daybreak.state.records import columns_of, values_of
from daybreak.state.service_tables import run_requests
from daybreak.state.statements import Store


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that an operator requested. `day` is a failed day to build again, None for a manual run."""

    request_id: str
    requested_at: datetime
    requested_by: str
    day: date | None = None


class RunRequestStore(Store):
    """Requested runs. Each is taken by one builder."""

    def add(self, request: RunRequest) -> None:
        self._execute(sa.insert(run_requests).values(values_of(request)))

    def waiting(self, since: datetime) -> list[RunRequest]:
        """Return requests since that instant that no builder has taken, oldest first."""
        return self._all(
            sa.select(*columns_of(RunRequest, run_requests))
            .where(run_requests.c.taken_at.is_(None), run_requests.c.requested_at >= since)
            .order_by(run_requests.c.requested_at, run_requests.c.request_id),
            RunRequest,
        )

    def take(self, request_id: str, now: datetime) -> bool:
        """Mark a request as taken, atomically. Return False if another builder has taken it."""
        return self._change(run_requests, request_id, run_requests.c.taken_at.is_(None), taken_at=now)

    def delete_before(self, before: datetime) -> int:
        """Delete requests made before that instant and return their number."""
        return self._changes(sa.delete(run_requests).where(run_requests.c.requested_at < before))
