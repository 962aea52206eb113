"""Activity of dashboard sessions: its record, and the end of a session without any (ASVS 5.0, 7.3.1)."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from msgspec.structs import replace

from daybreak.access.services import Services
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Unavailable
from daybreak.domain.identity import Caller, ResolvedSession, Session
from daybreak.state.stores import Stores

IDLE = "idle"
"""The `end_reason` of sessions that ended without activity."""
_RECORDED_EVERY = timedelta(minutes=1)


def is_recorded(session: Session, now: datetime) -> bool:
    """Return whether the activity of the last minute is recorded already."""
    return now < session.last_used_at + _RECORDED_EVERY


async def record_activity(services: Services, session: Session, now: datetime) -> None:
    """Record that a dashboard session was used, at most once a minute.

    Without the state database nothing is recorded, and the session ends earlier. The next request tries again.
    """
    with contextlib.suppress(Unavailable):
        await services.state.awrite(
            lambda stores: stores.sessions.record_activity(session.sid, now, not_after=now - _RECORDED_EVERY)
        )


async def end_idle(services: Services, resolved: ResolvedSession, caller: Caller, now: datetime) -> None:
    """Record that a session has ended without activity. It is refused, whether or not that can be recorded."""
    sid, limit = resolved.session.sid, services.settings.access.dashboard_idle
    origin = EventOrigin(now, caller, resolved.seat, None, f"session:{sid}")
    event = replace(origin.event("session.ended", "ok", {"reason": IDLE}), actor="service")

    def write(stores: Stores) -> None:
        if stores.sessions.end_unused(sid, now, IDLE, since=now - limit):
            stores.audit.append(event)

    with contextlib.suppress(Unavailable):
        await services.state.awrite(write)
