"""Events of API tokens: 14 days and 2 days before they expire, and three days after a daily script stopped."""

from datetime import datetime, timedelta

from daybreak.access.security_events import token_expiring, token_idle
from daybreak.state.stores import State, Stores

DAYS_BEFORE = (14, 2)


def record_expiring_tokens(stores: Stores, now: datetime) -> None:
    """Add the events that are due to the outbox.

    A token that was created within a period has no event for it. Only the last period that began counts.
    """
    for token in stores.api_tokens.list_expiring(now, now + timedelta(days=max(DAYS_BEFORE))):
        if token.expires_at is None:
            continue
        expires_at = token.expires_at
        begun = [days for days in DAYS_BEFORE if token.created_at < expires_at - timedelta(days=days) <= now]
        if begun:
            stores.outbox.add(token_expiring(token, expires_at, min(begun), now))


async def record_stopped_scripts(state: State, now: datetime) -> None:
    """Add an event for each daily script that stopped three days ago. Raises Unavailable."""
    tokens = await state.aread(lambda stores: stores.consumers.daily_scripts_stopped(now))
    events = [token_idle(token, token.last_used_at, now) for token in tokens if token.last_used_at is not None]

    def write(stores: Stores) -> None:
        for event in events:
            stores.outbox.add(event)

    if events:
        await state.awrite(write)
