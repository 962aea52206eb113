"""What the state database no longer needs: sessions and tokens long dead, counters that are over, old events."""

from __future__ import annotations

from datetime import datetime, timedelta

from daybreak.ports.state import State

# People look back on their sessions and tokens for a while: "was that me?"
_SESSIONS_KEPT = timedelta(days=30)
_TOKENS_KEPT = timedelta(days=400)
_DEVICES_KEPT = timedelta(days=180)
_NODES_KEPT = timedelta(days=7)
_EVENTS_AT_ONCE = 10_000


def tidy(state: State, now: datetime, keep_audit: timedelta | None) -> dict[str, int]:
    """Deletes what is over; how many rows of each kind went, kinds without any left out. Each kind has a transaction
    of its own, and events go in small ones, so that nobody waits long. `keep_audit` None keeps every event.

    Raises Unavailable.
    """
    gone = {
        "sessions": state.write(lambda stores: stores.sessions.forget_ended(now - _SESSIONS_KEPT)),
        "devices": state.write(lambda stores: stores.sessions.forget_devices(now - _DEVICES_KEPT)),
        "api_tokens": state.write(lambda stores: stores.api_tokens.forget_dead(now - _TOKENS_KEPT)),
        "throttle": state.write(lambda stores: stores.throttle.forget(now)),
        "nodes": state.write(lambda stores: stores.nodes.forget(now - _NODES_KEPT)),
        "audit_events": 0 if keep_audit is None else _forget_events(state, now - keep_audit),
    }
    return {kind: count for kind, count in gone.items() if count}


def _forget_events(state: State, before: datetime) -> int:
    gone = 0
    while True:
        some = state.write(lambda stores: stores.audit.forget(before, at_most=_EVENTS_AT_ONCE))
        gone += some
        if some < _EVENTS_AT_ONCE:
            return gone
