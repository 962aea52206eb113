"""Port of the runs that operators request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that an operator requested. `day` is a failed day to build again, None for a manual run."""

    request_id: str
    requested_at: datetime
    requested_by: str
    day: date | None = None


class RunRequestStore(Protocol):
    """Requested runs. Each is taken by one builder."""

    def add(self, request: RunRequest) -> None: ...

    def waiting(self, since: datetime) -> list[RunRequest]:
        """Return requests since that instant that no builder has taken, oldest first."""

    def take(self, request_id: str, now: datetime) -> bool:
        """Mark a request as taken, atomically. Return False if another builder has taken it."""

    def delete_before(self, before: datetime) -> int:
        """Delete requests made before that instant and return their number."""
