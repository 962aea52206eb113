"""One attempt to deliver a webhook, and its result in the state database."""

from datetime import datetime

import structlog

from daybreak.access.end_credentials import disable_webhook, stop_ownerless_webhooks
from daybreak.access.services import apply_revocations
from daybreak.domain.errors import InvalidRequest
from daybreak.domain.events import Attempt, Delivery, DeliveryState, Webhook
from daybreak.events.addresses import require_allowed_host
from daybreak.events.context import DeliveryContext
from daybreak.events.expansion import signed_headers
from daybreak.events.webhook_client import Outcome, WebhookClient
from daybreak.state.stores import Stores

_log = structlog.get_logger("daybreak.events")
_GONE = 410


class WebhookDelivery:
    """Attempts deliveries to webhooks."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context = context
        self._client = WebhookClient(
            context.settings.events.allowed_networks,
            timeout_seconds=context.timings.timeout_seconds,
            resolve=context.resolve,
        )

    async def attempt(self, delivery: Delivery) -> bool:
        """Send a message and record the result, or end a delivery that is no longer wanted. Raises Unavailable.

        Return False if the endpoint failed.
        """
        context = self._context
        webhook = await context.state.aread(lambda stores: self._check(stores, delivery))
        now = context.clock()
        if isinstance(webhook, str):
            await context.state.awrite(lambda stores: self._skip(stores, delivery, now, webhook))
            return True
        began = context.ticks()
        outcome = await self._send(delivery, webhook, now)
        milliseconds = round((context.ticks() - began) * 1000)
        attempt = Attempt(delivery.attempts + 1, now, outcome.status, outcome.detail, milliseconds)
        await context.state.awrite(lambda stores: self._record(stores, delivery, webhook, attempt, outcome))
        _log.info(
            "webhook.attempted",
            delivery_id=delivery.delivery_id,
            client_id=delivery.client_id,
            type=delivery.type,
            attempt=attempt.number,
            status=outcome.status,
            detail=outcome.detail,
            milliseconds=milliseconds,
        )
        return outcome.is_success

    def _check(self, stores: Stores, delivery: Delivery) -> Webhook | str:
        """Return the endpoint, or why the delivery must not be attempted."""
        apply_revocations(self._context.keyring, stores)
        webhook = stores.webhooks.get(delivery.endpoint_id or "")
        if webhook is None:
            return "The webhook was removed."
        if webhook.disabled_at is not None:
            return "The webhook is disabled."
        if stores.webhooks.list_ownerless(endpoint_id=webhook.endpoint_id):
            return "The webhook has no owner."
        account = stores.directory.account(webhook.client_id)
        if account is None or not account.active:
            return "The account is inactive."
        settings = self._context.settings.events
        try:
            require_allowed_host(webhook.url, settings.allowed_hosts)
        except InvalidRequest:
            return "The host is not allowed."
        return webhook if settings.webhooks else "Webhooks are off."

    def _skip(self, stores: Stores, delivery: Delivery, now: datetime, reason: str) -> None:
        stores.deliveries.skip(delivery, now, reason)
        # Usually stopped by the change that removed the permission.
        stop_ownerless_webhooks(stores, now, endpoint_id=delivery.endpoint_id)

    async def _send(self, delivery: Delivery, webhook: Webhook, now: datetime) -> Outcome:
        headers = signed_headers(delivery, webhook, self._context.keyring.current(), now)
        if headers is None:
            return Outcome(None, "The secret cannot be decrypted. Rotate it.")
        body = delivery.body.encode()
        if self._context.tracing is None:
            return await self._client.send(webhook.url, headers, body)
        with self._context.tracing.delivery(delivery) as attempt:
            outcome = await self._client.send(webhook.url, headers | attempt.headers, body)
            attempt.status = outcome.status
            return outcome

    def _record(self, stores: Stores, delivery: Delivery, webhook: Webhook, attempt: Attempt, outcome: Outcome) -> None:
        """Record an attempt, and the state of delivery and endpoint that follows from it."""
        now, timings = attempt.at, self._context.timings
        current = stores.webhooks.get(webhook.endpoint_id)
        if current is None:
            return
        if outcome.is_success:
            stores.deliveries.record(delivery, attempt, DeliveryState.DELIVERED)
            if current.failing_since is not None:
                stores.webhooks.set_failing(webhook.endpoint_id, None)
            return
        retry_at = timings.retry_at(attempt.number, delivery.created_at, now)
        state = DeliveryState.FAILED if retry_at is None else DeliveryState.PENDING
        if not stores.deliveries.record(delivery, attempt, state, next_attempt_at=retry_at):
            return
        if current.failing_since is None:
            stores.webhooks.set_failing(webhook.endpoint_id, now)
        # The first failure may be older: no attempts are made while the account is inactive.
        elif retry_at is None and now >= current.failing_since + timings.give_up_after:
            disable_webhook(stores, current, now, "Every attempt failed for five days.")
        if outcome.status == _GONE:
            disable_webhook(stores, current, now, "The endpoint answered 410 Gone.")
