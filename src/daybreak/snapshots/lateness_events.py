"""Events of late files, written when the state database shows that files became late, or are no longer late."""

from __future__ import annotations

from datetime import datetime
from datetime import time as time_of_day

from daybreak.domain.events import Event, EventType
from daybreak.domain.snapshot import Freshness
from daybreak.snapshots.events import late_event, recovered_event
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.schedule import last_due, next_attempt
from daybreak.snapshots.timings import RunTimings
from daybreak.state.stores import State, Stores

_RECENT_RUNS = 60


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
        attempt_at = next_attempt(day, stores.snapshots.recent(_RECENT_RUNS), RunTimings())
        return late_event(day, fresh, attempt_at if attempt_at is not None and attempt_at > now else None, now)
    if late is None:
        return None
    recovered = stores.outbox.latest(EventType.SNAPSHOT_RECOVERED)
    if recovered is not None and recovered.at >= late.at:
        return None
    return recovered_event(late, fresh.snapshot, now)
