"""Runs that operators request outside the builder, which takes them within seconds."""

from datetime import date, datetime, timedelta

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import OperatorError
from daybreak.domain.snapshot import SnapshotState
from daybreak.state.run_requests import RunRequest
from daybreak.state.stores import State, Stores

REQUEST_LIFETIME = timedelta(hours=1)
"""A request that no builder takes in this time has no effect."""

_RUNS_SEARCHED = 50


def request_run(state: State, now: datetime, *, request_id: str, actor: str, day: date | None = None) -> RunRequest:
    """Request a manual run, or another attempt at a failed day. The request is recorded in the audit trail.

    Raises OperatorError if a run is under way or requested already, or the day has not failed.
    """
    request = RunRequest(request_id, now, actor, day)

    def work(stores: Stores) -> None:
        # So that only one of two requests at the same time finds none waiting.
        stores.snapshots.lock_current()
        if waiting_requests(stores, now):
            raise OperatorError("A run was already requested. A builder starts it within seconds.")
        if any(run.is_running(now) for run in stores.snapshots.recent(_RUNS_SEARCHED)):
            raise OperatorError("A run is already under way. Wait until it ends.")
        latest = stores.snapshots.of_day(day) if day is not None else None
        if day is not None and (latest is None or latest.state is not SnapshotState.FAILED):
            raise OperatorError(f"The run of {day.isoformat()} has not failed. There is nothing to repeat.")
        stores.run_requests.add(request)
        details = {"day": day.isoformat() if day is not None else "by hand"}
        stores.audit.append(
            AuditEvent(at=now, action="run.requested", result="ok", actor=actor, subject=request_id, details=details)
        )

    state.write(work)
    return request


def waiting_requests(stores: Stores, now: datetime) -> list[RunRequest]:
    """Return the requests that a builder should take, oldest first."""
    return stores.run_requests.waiting(now - REQUEST_LIFETIME)


def take_request(state: State, now: datetime) -> RunRequest | None:
    """Take the oldest request for this builder, None without any."""
    for request in state.read(lambda stores: waiting_requests(stores, now)):
        if state.write(lambda stores, request=request: stores.run_requests.take(request.request_id, now)):  # type: ignore[misc]
            return request
    return None
