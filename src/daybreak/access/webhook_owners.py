"""The owner of a webhook: the seat that created it or took it over, while it may manage webhooks of the account.

A webhook sends numbers of rows to its URL, which its owner chose. It ends with the permission of the owner, like an API
token, until another owner or admin takes it over.
"""

from __future__ import annotations

from datetime import datetime

from daybreak.domain.audit import AuditEvent
from daybreak.domain.events import EventType, Webhook, new_event
from daybreak.state.stores import Stores

_ACTOR = "service"


def stop_ownerless_webhooks(
    stores: Stores, now: datetime, *, owner_id: str | None = None, endpoint_id: str | None = None
) -> None:
    """Disable the webhooks whose owner may no longer manage them, of all owners or of one, and notify the managers."""
    for webhook in stores.webhooks.list_ownerless(owner_id=owner_id, endpoint_id=endpoint_id):
        reason = f"Its owner {webhook.created_by_email} no longer manages webhooks of this account."
        disable_webhook(stores, webhook, now, reason, ownerless=True)


def disable_webhook(stores: Stores, webhook: Webhook, now: datetime, reason: str, *, ownerless: bool = False) -> None:
    """Disable an endpoint, end its pending deliveries and notify its owner, or without one all managers."""
    if not stores.webhooks.disable(webhook.endpoint_id, now, reason):
        return
    stores.deliveries.end_pending(webhook.endpoint_id, now, "The webhook was disabled.")
    data = {
        "client_id": webhook.client_id,
        "endpoint_id": webhook.endpoint_id,
        "url": webhook.url,
        "created_by": webhook.created_by,
        "reason": reason,
        "ownerless": ownerless,
    }
    key = f"{webhook.endpoint_id}\n{now.isoformat()}"
    stores.outbox.add(new_event(EventType.WEBHOOK_DISABLED, key, now, data, client_id=webhook.client_id))
    stores.audit.append(
        AuditEvent(
            at=now,
            action="webhook.disabled",
            result="ok",
            actor=_ACTOR,
            client_id=webhook.client_id,
            subject=f"webhook:{webhook.endpoint_id}",
            details={"url": webhook.url, "reason": reason},
        )
    )
