"""New session ids: a dashboard session gets one when its password is confirmed or its secrets change.

An attacker who planted or read the old id loses the session at that step (ASVS 5.0, 7.2.4).
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from daybreak.access.audit_trail import EventOrigin
from daybreak.access.services import AccessServices
from daybreak.domain.identity import Caller, Seat, Session
from daybreak.state.stores import Stores


def renew(services: AccessServices, stores: Stores, session: Session, now: datetime, reason: str) -> Session | None:
    """End a dashboard session and start it again with a new id. Returns the new session, None if it had ended.

    The old id and the links issued with it become invalid immediately; `reason` is recorded with it. An API session is
    returned unchanged: all tokens of a login share its id, and the client keeps them.
    """
    if session.kind == "api":
        return session
    renewed = replace(session, sid=services.new_id(), last_seen_at=now)
    return renewed if stores.sessions.replace(session.sid, renewed, now, reason) else None


def end_held_session(stores: Stores, sid: str, seat: Seat, caller: Caller, now: datetime) -> None:
    """End the session that a browser held when `seat` signed in with it. It may belong to another seat."""
    held = stores.sessions.resolve(sid, None)
    if held is None or not stores.sessions.end(sid, now, "signed in again"):
        return
    origin = EventOrigin(now, caller, held.seat, None, f"session:{sid}")
    event = origin.event("session.ended", "ok", {"seat": held.seat.email, "reason": "signed in again"})
    stores.audit.append(replace(event, actor=seat.email))
