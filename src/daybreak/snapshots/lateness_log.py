"""Logs and records that files are, will be or are no longer late, even while the builder is busy with the late run."""

import contextlib
from datetime import datetime
from datetime import time as time_of_day

import structlog

from daybreak.domain.errors import Unavailable
from daybreak.domain.events import Event, EventType
from daybreak.domain.snapshot import Freshness
from daybreak.snapshots.events import late_event, recovered_event
from daybreak.snapshots.freshness import GRACE, freshness, is_on_schedule
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import RunTimings, last_due, next_attempt, publication_of
from daybreak.state.stores import State, Stores
from daybreak.state.supervision import Supervisor

_RECENT_RUNS = 60

_log = structlog.get_logger("daybreak.snapshots")
_INTERVAL_SECONDS = 5.0
_FRESH = "fresh"
_WILL_BE_LATE = "will be late"


def record_lateness(state: State, now: datetime, publish_at: time_of_day) -> Event | None:
    """Add the event of a change to the outbox and return it, None without a change. Raises Unavailable.

    The freshness is read again in the transaction that adds the event. The lock makes publications wait, so that an
    event never contradicts the published snapshot.
    """

    def find(stores: Stores) -> Event | None:
        return _event(stores, freshness(stores.snapshots, now, publish_at), now, publish_at)

    def add(stores: Stores) -> Event | None:
        stores.snapshots.lock_current()
        event = find(stores)
        return event if event is not None and stores.outbox.add(event) else None

    return None if state.read(find) is None else state.write(add)


def _event(stores: Stores, fresh: Freshness, now: datetime, publish_at: time_of_day) -> Event | None:
    """Return the event that is due, if any."""
    late = stores.outbox.latest(EventType.SNAPSHOT_LATE)
    if fresh.late:
        day = last_due(now, publish_at)
        if late is not None and late.data.get("day") == day.isoformat():
            return None
        runs = stores.snapshots.recent(_RECENT_RUNS)
        # A service whose first run began after the hour of publication was installed later. See punctuality.py.
        if len(runs) < _RECENT_RUNS and all(run.started_at > publication_of(day, publish_at) + GRACE for run in runs):
            return None
        return late_event(day, fresh, next_attempt(day, runs, RunTimings(), now), now)
    if late is None:
        return None
    recovered = stores.outbox.latest(EventType.SNAPSHOT_RECOVERED)
    if recovered is not None and recovered.at >= late.at:
        return None
    return recovered_event(late, fresh.snapshot, now)


class LatenessLog:
    """Logs once when lateness is predicted, when it begins, when its reason changes, and when it ends."""

    def __init__(self, publish_at: time_of_day) -> None:
        self.publish_at = publish_at
        self._logged = _FRESH

    def update(self, fresh: Freshness) -> None:
        """Log a change since the last call."""
        expected_at = fresh.next_expected_at
        if fresh.reason is not None:
            # Without the share in parentheses, which changes continuously.
            status = fresh.reason.split(" (")[0]
        else:
            status = _FRESH if is_on_schedule(expected_at, self.publish_at) else _WILL_BE_LATE
        if status == self._logged:
            return
        self._logged = status
        if fresh.reason is not None:
            _log.warning("files.late", reason=fresh.reason, expected_at=expected_at.isoformat())
        elif status == _WILL_BE_LATE:
            _log.warning("files.will_be_late", expected_at=expected_at.isoformat())
        else:
            _log.info("files.fresh", next_at=expected_at.isoformat())


def watch_lateness(context: RunContext) -> None:
    """Check every few seconds until the context's `stop` is set."""
    log = LatenessLog(context.settings.snapshot.publish_at)

    def check() -> float:
        # The builder reports that the database is unavailable.
        with contextlib.suppress(Unavailable):
            now = context.clock()
            fresh = context.state.read(lambda stores: freshness(stores.snapshots, now, log.publish_at))
            log.update(fresh)
            record_lateness(context.state, now, log.publish_at)
        return _INTERVAL_SECONDS

    if not context.stop.wait(_INTERVAL_SECONDS):
        Supervisor(context.state, context.builder, context.clock).run("lateness", check, context.stop)
