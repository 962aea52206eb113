"""The end of a seat's credentials, for every reason that concerns the whole seat.

Sessions end with their tokens, download links, form tokens and pending logins: all of them depend on the session. Links
in mails that set a password end with them, including those that were requested and not sent yet.

A webhook sends numbers of rows to its URL, which its owner chose: the seat that created it or took it over. It ends
with the permission of the owner, like an API token, until another owner or admin takes it over.
"""

from datetime import datetime
from enum import StrEnum

from daybreak.domain.audit import AuditEvent
from daybreak.domain.events import EventType, Webhook, new_event
from daybreak.state.stores import Stores

_ACTOR = "service"


class EndReason(StrEnum):
    """Why the credentials of a seat end, as its sessions record it."""

    SEAT_DISABLED = "seat disabled"
    EMAIL_CHANGED = "email changed"
    PASSWORD_CHANGED = "password changed"  # noqa: S105 - not a secret
    PASSWORD_RESET = "password reset"  # noqa: S105 - not a secret
    PASSWORD_SET = "password set by an operator"  # noqa: S105 - not a secret
    SIGNED_OUT = "signed out by an operator"
    ENDED_BY_OWNER = "ended by its owner"
    IDENTITY_BOUND = "identity bound"
    IDENTITY_UNBOUND = "identity unbound"
    FACTOR_RESET = "second factor reset"
    FACTOR_ENROLLED = "second factor enrolled"
    KEY_REVOKED = "key revoked"


_KEEPS_LINKS = frozenset({EndReason.FACTOR_ENROLLED, EndReason.KEY_REVOKED})
"""An operator enrols the second factor of an invited person, who then sets the password. No key signs these links."""


def end_credentials(
    stores: Stores, seat_id: str, reason: EndReason, now: datetime, *, keep_sid: str | None = None
) -> int:
    """End the sessions of a seat, except `keep_sid`, and its links that set a password. Returns the number of sessions.

    Webhooks of a disabled seat are disabled until another owner or admin takes them over. API tokens are not changed.
    They are refused while the seat is disabled, and revoked with the grant that they need.
    """
    if reason not in _KEEPS_LINKS:
        stores.seats.end_links(now, seat_id)
    if reason is EndReason.SEAT_DISABLED:
        stop_ownerless_webhooks(stores, now, owner_id=seat_id)
    return stores.sessions.end_all(seat_id, now, reason, keep_sid=keep_sid)


def end_all_credentials(stores: Stores, reason: EndReason, now: datetime) -> dict[str, int]:
    """End the sessions and links of all seats. Returns the number of sessions for each seat that had any."""
    if reason not in _KEEPS_LINKS:
        stores.seats.end_links(now)
    return stores.sessions.end_every(now, reason)


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
