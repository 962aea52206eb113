"""Messages of webhooks: bodies, ids and signed headers (Standard Webhooks 1.0)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

import daybreak
from daybreak.credentials import webhook_secret
from daybreak.credentials.keyring import Keyring
from daybreak.domain.events import Delivery, Event, Webhook, digest_id

_ENCODER = msgspec.json.Encoder()


def message_id(event: Event, client_id: str) -> str:
    """Return the id of an event's message to an account, the same for all its endpoints and attempts."""
    return f"msg_{digest_id(event.event_id, client_id)}"


def message_body(event: Event, data: Mapping[str, object]) -> str:
    """Return the body of a message: `{"type", "timestamp", "data"}`."""
    timestamp = event.at.isoformat().replace("+00:00", "Z")
    return _ENCODER.encode({"type": event.type.value, "timestamp": timestamp, "data": data}).decode()


def signed_headers(delivery: Delivery, webhook: Webhook, keyring: Keyring, now: datetime) -> dict[str, str] | None:
    """Return the headers of an attempt. None if no key of the keyring decrypts the secret.

    For 24 hours after a rotation, there is a signature with each secret.
    """
    sealed = [webhook.sealed_secret]
    if webhook.previous_secret is not None and webhook.previous_until is not None and webhook.previous_until > now:
        sealed.append(webhook.previous_secret)
    secrets = [webhook_secret.decrypt(each, endpoint_id=webhook.endpoint_id, keyring=keyring) for each in sealed]
    timestamp, body = int(now.timestamp()), delivery.body.encode()
    signatures = [
        webhook_secret.sign(secret, message_id=delivery.message_id, timestamp=timestamp, body=body)
        for secret in secrets
        if secret is not None
    ]
    if secrets[0] is None:
        return None
    return {
        "Content-Type": "application/json",
        "User-Agent": f"Daybreak/{daybreak.__version__}",
        "Accept-Encoding": "identity",
        "webhook-id": delivery.message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
