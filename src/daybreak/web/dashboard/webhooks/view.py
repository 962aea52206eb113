"""Template variables of the webhook pages."""

from __future__ import annotations

from datetime import datetime

from daybreak.domain.events import Attempt, DeliveryState, Webhook
from daybreak.events.webhooks import LoggedDelivery


def webhook_view(webhook: Webhook, now: datetime) -> dict[str, object]:
    """Return the variables of one webhook."""
    previous_until = webhook.previous_until
    return {
        "endpoint_id": webhook.endpoint_id,
        "url": webhook.url,
        "created_at": webhook.created_at,
        "created_by": webhook.created_by_email,
        "state": webhook_state(webhook),
        "disabled_at": webhook.disabled_at,
        "disabled_reason": webhook.disabled_reason,
        "failing_since": webhook.failing_since,
        "previous_until": previous_until if previous_until is not None and previous_until > now else None,
    }


def webhook_state(webhook: Webhook) -> str:
    """Return `enabled`, `failing` or `disabled`."""
    if webhook.disabled_at is not None:
        return "disabled"
    return "failing" if webhook.failing_since is not None else "enabled"


def log_rows(log: list[LoggedDelivery]) -> list[dict[str, object]]:
    """Return one row per delivery, newest first."""
    return [
        {
            "delivery_id": each.delivery.delivery_id,
            "message_id": each.delivery.message_id,
            "type": each.delivery.type.value,
            "created_at": each.delivery.created_at,
            "state": each.delivery.state.value,
            "detail": each.delivery.detail,
            "next_attempt_at": each.delivery.next_attempt_at,
            "can_retry": each.delivery.state in {DeliveryState.FAILED, DeliveryState.SKIPPED},
            "attempts": [_attempt_view(attempt) for attempt in reversed(each.attempts)],
            "body": each.delivery.body,
        }
        for each in log
    ]


def is_pending(log: list[LoggedDelivery], now: datetime) -> bool:
    """Return whether a first attempt, or a retry that is due, is under way."""
    pending = [each.delivery for each in log if each.delivery.state is DeliveryState.PENDING]
    return any(not each.attempts or (each.next_attempt_at or now) <= now for each in pending)


def _attempt_view(attempt: Attempt) -> dict[str, object]:
    return {
        "number": attempt.number,
        "at": attempt.at,
        "status": attempt.status,
        "detail": attempt.detail,
        "milliseconds": attempt.milliseconds,
    }
