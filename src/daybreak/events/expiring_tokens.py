"""Events of API tokens that expire soon: 14 days and 2 days before."""

from __future__ import annotations

from datetime import datetime, timedelta

from daybreak.access.security_events import token_expiring
from daybreak.state.stores import Stores

DAYS_BEFORE = (14, 2)


def record_expiring_tokens(stores: Stores, now: datetime) -> int:
    """Add the events that are due to the outbox, and return their number.

    A token that was created within a period has no event for it. Only the last period that began counts.
    """
    added = 0
    for token in stores.api_tokens.list_expiring(now, now + timedelta(days=max(DAYS_BEFORE))):
        if token.expires_at is None:
            continue
        expires_at = token.expires_at
        begun = [days for days in DAYS_BEFORE if token.created_at < expires_at - timedelta(days=days) <= now]
        if begun:
            added += stores.outbox.add(token_expiring(token, expires_at, min(begun), now))
    return added
