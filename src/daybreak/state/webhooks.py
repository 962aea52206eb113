"""Repository of webhooks: the endpoints of accounts."""

from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa

from daybreak.domain.events import Webhook
from daybreak.domain.identity import Grant, Seat
from daybreak.state.records import GRANT_COLUMNS, columns_of, values_of
from daybreak.state.schema import accounts, grants, seats, webhooks
from daybreak.state.statements import Store

_COLUMNS = columns_of(Webhook, webhooks)


class WebhookStore(Store):
    """Endpoints of accounts."""

    def add(self, webhook: Webhook) -> None:
        self._execute(sa.insert(webhooks).values(values_of(webhook)))

    def get(self, endpoint_id: str) -> Webhook | None:
        return self._first(sa.select(*_COLUMNS).where(webhooks.c.endpoint_id == endpoint_id), Webhook)

    def list_for(self, client_id: str) -> list[Webhook]:
        """Return the endpoints of an account, oldest first."""
        own = sa.select(*_COLUMNS).where(webhooks.c.client_id == client_id)
        return self._all(own.order_by(webhooks.c.created_at, webhooks.c.endpoint_id), Webhook)

    def list_for_update(self, client_id: str) -> list[Webhook]:
        """Return the endpoints of an account, and lock the account: other callers wait until this transaction ends."""
        # SQLite ignores FOR UPDATE: it allows one write transaction at a time.
        self._execute(
            sa.select(accounts.c.client_id).where(accounts.c.client_id == client_id).with_for_update(key_share=True)
        )
        return self.list_for(client_id)

    def list_enabled(self, after_id: str, limit: int) -> list[Webhook]:
        """Return enabled endpoints of active accounts with ids greater than `after_id`, by id."""
        return self._all(
            sa.select(*_COLUMNS)
            .join(accounts, accounts.c.client_id == webhooks.c.client_id)
            .where(webhooks.c.endpoint_id > after_id, webhooks.c.disabled_at.is_(None), accounts.c.active)
            .order_by(webhooks.c.endpoint_id)
            .limit(limit),
            Webhook,
        )

    def list_owned(self, owner_id: str) -> list[Webhook]:
        """Return the enabled endpoints of a seat, on all accounts."""
        conditions = (webhooks.c.created_by == owner_id, webhooks.c.disabled_at.is_(None))
        statement = sa.select(*_COLUMNS).where(*conditions).order_by(webhooks.c.url, webhooks.c.endpoint_id)
        return self._all(statement, Webhook)

    def list_ownerless(self, *, owner_id: str | None = None, endpoint_id: str | None = None) -> list[Webhook]:
        """Return enabled endpoints whose owner may no longer manage webhooks of the account: all, or only those of one
        seat or with one id.
        """
        statement = (
            sa.select(*_COLUMNS, seats.c.disabled, *GRANT_COLUMNS)
            .outerjoin(seats, seats.c.seat_id == webhooks.c.created_by)
            .outerjoin(grants, sa.and_(grants.c.seat_id == seats.c.seat_id, grants.c.client_id == webhooks.c.client_id))
            .where(webhooks.c.disabled_at.is_(None))
            .order_by(webhooks.c.endpoint_id)
        )
        if owner_id is not None:
            statement = statement.where(webhooks.c.created_by == owner_id)
        if endpoint_id is not None:
            statement = statement.where(webhooks.c.endpoint_id == endpoint_id)
        width = len(_COLUMNS)
        return [
            Webhook(*row[:width])
            for row in self._execute(statement).all()
            if row[width] is not False or row[width + 1] is None or not Grant(*row[width + 1 :]).manages_webhooks
        ]

    def remove(self, endpoint_id: str) -> bool:
        """Delete an endpoint with its deliveries. Returns False when it does not exist."""
        return self._changes(sa.delete(webhooks).where(webhooks.c.endpoint_id == endpoint_id)) == 1

    def rotate(self, endpoint_id: str, sealed_secret: str, previous_until: datetime) -> bool:
        """Replace the secret. The replaced one also signs until `previous_until`."""
        return self._change(
            webhooks,
            endpoint_id,
            previous_secret=webhooks.c.sealed_secret,
            previous_until=previous_until,
            sealed_secret=sealed_secret,
        )

    def choose_events(self, endpoint_id: str, event_types: str | None) -> bool:
        """Set the event types. Returns False when the endpoint does not exist."""
        return self._change(webhooks, endpoint_id, event_types=event_types)

    def disable(self, endpoint_id: str, now: datetime, reason: str) -> bool:
        """Disable an endpoint. Returns False when it is disabled or does not exist."""
        enabled = webhooks.c.disabled_at.is_(None)
        return self._change(webhooks, endpoint_id, enabled, disabled_at=now, disabled_reason=reason)

    def enable(self, endpoint_id: str, *, owner_id: str) -> bool:
        """Enable an endpoint. Returns False when it is enabled, does not exist or has another owner."""
        disabled, owned = webhooks.c.disabled_at.is_not(None), webhooks.c.created_by == owner_id
        return self._change(
            webhooks, endpoint_id, disabled, owned, disabled_at=None, disabled_reason=None, failing_since=None
        )

    def take_over(self, endpoint_id: str, owner: Seat) -> bool:
        """Change the owner of an endpoint, and enable it. Returns False when it does not exist."""
        return self._change(
            webhooks,
            endpoint_id,
            created_by=owner.seat_id,
            created_by_email=owner.email,
            disabled_at=None,
            disabled_reason=None,
            failing_since=None,
        )

    def set_failing(self, endpoint_id: str, since: datetime | None) -> None:
        self._change(webhooks, endpoint_id, failing_since=since)

    def sealed_secrets(self) -> list[str]:
        """Return every stored secret, encrypted."""
        rows = self._execute(sa.select(webhooks.c.sealed_secret, webhooks.c.previous_secret))
        return [secret for row in rows for secret in row if secret is not None]

    def reseal(self, reseal: Callable[[str, str], str | None]) -> int:
        """Replace each secret by `reseal(endpoint_id, sealed)`; None keeps it. Returns the number replaced."""
        return self._reseal(webhooks, (webhooks.c.sealed_secret, webhooks.c.previous_secret), reseal)
