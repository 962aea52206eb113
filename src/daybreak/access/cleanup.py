"""Deletion of expired rows from the state database."""

from datetime import datetime, timedelta

import structlog

from daybreak.state.stores import State, delete_in_batches

_log = structlog.get_logger("daybreak.state")
# Owners can still recognize a recent session or token on the security page.
SESSIONS_KEPT = timedelta(days=30)
TOKENS_KEPT = timedelta(days=400)
DEVICES_KEPT = timedelta(days=180)
NODES_KEPT = timedelta(days=7)
TASK_FAULTS_KEPT = timedelta(days=2)
# Longer than the 14 days in which an event must not occur twice.
EVENTS_KEPT = timedelta(days=30)
_EVENTS_AT_ONCE = 10_000


def delete_expired(state: State, now: datetime, audit_kept: timedelta) -> dict[str, int]:
    """Delete expired rows, log and return the number of each kind; kinds without any are left out.

    Each kind has its own transaction, and audit events are deleted in small ones, so that no request waits long.
    Raises Unavailable.
    """
    counts = {
        "sessions": state.write(lambda stores: stores.sessions.delete_ended(now - SESSIONS_KEPT)),
        "devices": state.write(lambda stores: stores.sessions.delete_unused_devices(now - DEVICES_KEPT)),
        "api_tokens": state.write(lambda stores: stores.api_tokens.delete_inactive(now - TOKENS_KEPT)),
        "throttle": state.write(lambda stores: stores.throttle.delete_expired(now)),
        "nodes": state.write(lambda stores: stores.nodes.delete_before(now - NODES_KEPT)),
        "task_faults": state.write(lambda stores: stores.task_faults.delete_before(now - TASK_FAULTS_KEPT)),
        "events": state.write(lambda stores: stores.outbox.delete_before(now - EVENTS_KEPT)),
        "password_resets": state.write(lambda stores: stores.password_resets.delete_expired(now)),
        "run_requests": state.write(lambda stores: stores.run_requests.delete_before(now - NODES_KEPT)),
        "audit_events": delete_in_batches(
            state,
            lambda stores, at_most: stores.audit.delete_before(now - audit_kept, at_most=at_most),
            _EVENTS_AT_ONCE,
        ),
    }
    deleted_counts = {kind: count for kind, count in counts.items() if count}
    if deleted_counts:
        _log.info("state.tidied", **deleted_counts)
    return deleted_counts
