"""Webhooks of an account: owners and admins create, rotate, test, disable, enable and remove them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.access import throttle
from daybreak.access.authorization import require
from daybreak.access.services import Services
from daybreak.access.sessions import require_recent_password
from daybreak.credentials import webhook_secret
from daybreak.domain.audit import AuditEvent, EventOrigin
from daybreak.domain.errors import Conflict, InvalidRequest, NotFound
from daybreak.domain.events import ACCOUNT_EVENTS, Attempt, Delivery, Event, EventType, Webhook, new_event
from daybreak.domain.identity import Caller, Principal, is_id
from daybreak.events.addresses import parse_url, require_allowed_host
from daybreak.state.deliveries import DeliveryFilter
from daybreak.state.stores import Stores

MAX_WEBHOOKS = 5
PREVIOUS_SECRET_LIFETIME = timedelta(hours=24)
LOG_ENTRIES = 50


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """A webhook with its new secret, which is shown once."""

    webhook: Webhook
    secret: str


@dataclass(frozen=True, slots=True)
class LoggedDelivery:
    """A delivery with its attempts, oldest first."""

    delivery: Delivery
    attempts: list[Attempt]


async def list_of_account(services: Services, principal: Principal) -> list[Webhook]:
    """Return the webhooks of the principal's account, oldest first. Raises Forbidden."""
    _require(services, principal)
    return await services.state.aread(lambda stores: stores.webhooks.list_for(principal.account.client_id))


async def find(services: Services, principal: Principal, endpoint_id: str) -> Webhook:
    """Return a webhook of the principal's account. Raises NotFound, Forbidden."""
    _require(services, principal)
    return await services.state.aread(lambda stores: _own(stores, principal, endpoint_id))


async def create(
    services: Services,
    principal: Principal,
    *,
    url: str,
    caller: Caller,
    event_types: Collection[EventType] = ACCOUNT_EVENTS,
) -> WebhookSecret:
    """Create a webhook with a new secret.

    Raises InvalidRequest for the URL, Conflict when the account has too many, Forbidden.
    """
    _require_secrets(services, principal)
    chosen = _chosen(event_types)
    settings = services.settings.events
    accepted = parse_url(url, settings.allowed_networks)
    require_allowed_host(accepted, settings.allowed_hosts)
    now, endpoint_id = services.clock(), services.new_id()
    secret = webhook_secret.generate(services.random)
    webhook = Webhook(
        endpoint_id=endpoint_id,
        client_id=principal.account.client_id,
        url=accepted,
        sealed_secret=_encrypt(services, secret, endpoint_id),
        created_at=now,
        created_by=principal.seat.seat_id,
        created_by_email=principal.seat.email,
        event_types=chosen,
    )

    def write(stores: Stores) -> None:
        # The lock serializes parallel requests, so that each counts the webhooks of the others.
        existing = stores.webhooks.list_for_update(webhook.client_id)
        if len(existing) >= MAX_WEBHOOKS:
            raise Conflict(f"This account has {MAX_WEBHOOKS} webhooks. Remove one first.", code="too_many_webhooks")
        stores.webhooks.add(webhook)
        _record(stores, principal, webhook, "webhook.created", now, caller)

    await services.state.awrite(write)
    return WebhookSecret(webhook, secret)


async def choose_events(
    services: Services, principal: Principal, endpoint_id: str, event_types: Collection[EventType], caller: Caller
) -> None:
    """Set the event types that a webhook receives. Raises InvalidRequest without any, NotFound, Forbidden."""
    _require(services, principal)
    chosen = _chosen(event_types)

    def change(stores: Stores) -> bool:
        return stores.webhooks.choose_events(endpoint_id, chosen)

    await _change(services, principal, endpoint_id, "webhook.events_changed", caller, change)


async def rotate(services: Services, principal: Principal, endpoint_id: str, caller: Caller) -> WebhookSecret:
    """Replace the secret. For 24 hours, messages are also signed with the replaced one. Raises NotFound, Forbidden."""
    _require_secrets(services, principal)
    now, secret = services.clock(), webhook_secret.generate(services.random)
    sealed = _encrypt(services, secret, endpoint_id)

    def change(stores: Stores) -> bool:
        return stores.webhooks.rotate(endpoint_id, sealed, now + PREVIOUS_SECRET_LIFETIME)

    webhook = await _change(services, principal, endpoint_id, "webhook.secret_rotated", caller, change)
    return WebhookSecret(webhook, secret)


async def disable(services: Services, principal: Principal, endpoint_id: str, caller: Caller) -> None:
    """Stop sending to a webhook. Pending deliveries fail and can be retried later. Raises NotFound, Forbidden."""
    _require(services, principal)
    now = services.clock()

    def change(stores: Stores) -> bool:
        stores.deliveries.end_pending(endpoint_id, now, "The webhook was disabled.")
        return stores.webhooks.disable(endpoint_id, now, f"Disabled by {principal.seat.email}.")

    await _change(services, principal, endpoint_id, "webhook.disabled", caller, change)


async def enable(services: Services, principal: Principal, endpoint_id: str, caller: Caller) -> None:
    """Send to a disabled webhook of the principal's seat again. Raises NotFound, Forbidden."""
    _require(services, principal)

    def change(stores: Stores) -> bool:
        return stores.webhooks.enable(endpoint_id, owner_id=principal.seat.seat_id)

    await _change(services, principal, endpoint_id, "webhook.enabled", caller, change)


async def take_over(services: Services, principal: Principal, endpoint_id: str, caller: Caller) -> None:
    """Become the owner of a webhook, and send to it again. Raises NotFound, Forbidden(reauthentication_required)."""
    _require_secrets(services, principal)

    def change(stores: Stores) -> bool:
        return stores.webhooks.take_over(endpoint_id, principal.seat)

    await _change(services, principal, endpoint_id, "webhook.taken_over", caller, change)


async def remove(services: Services, principal: Principal, endpoint_id: str, caller: Caller) -> None:
    """Delete a webhook and its deliveries. Raises NotFound, Forbidden(reauthentication_required)."""
    _require_secrets(services, principal)

    def change(stores: Stores) -> bool:
        return stores.webhooks.remove(endpoint_id)

    await _change(services, principal, endpoint_id, "webhook.removed", caller, change)


async def send_test(services: Services, principal: Principal, endpoint_id: str, caller: Caller) -> None:
    """Have a test event sent to a webhook. Raises NotFound, Forbidden, RateLimited, Conflict for a disabled one."""
    _require(services, principal)
    now, key = services.clock(), services.random(16).hex()
    rules = throttle.test_event_rules(client_id=principal.account.client_id)
    await throttle.count_attempt(services.state, rules, now)

    def write(stores: Stores) -> None:
        webhook = _own(stores, principal, endpoint_id)
        _require_enabled(webhook)
        stores.outbox.add(new_test_event(webhook, key, now))
        _record(stores, principal, webhook, "webhook.tested", now, caller)

    await services.state.awrite(write)


async def delivery_log(services: Services, principal: Principal, endpoint_id: str) -> list[LoggedDelivery]:
    """Return the most recent deliveries to a webhook, newest first. Raises NotFound, Forbidden."""
    await find(services, principal, endpoint_id)

    def read(stores: Stores) -> list[LoggedDelivery]:
        found = stores.deliveries.list_recent(DeliveryFilter(endpoint_id=endpoint_id), LOG_ENTRIES)
        attempts = stores.deliveries.attempts([each.delivery_id for each in found])
        return [LoggedDelivery(each, attempts[each.delivery_id]) for each in found]

    return await services.state.aread(read)


async def retry(services: Services, principal: Principal, endpoint_id: str, delivery_id: str, caller: Caller) -> bool:
    """Make a failed delivery due now. Returns False when it has not failed. Raises NotFound, Forbidden, Conflict."""
    _require(services, principal)
    now = services.clock()

    def write(stores: Stores) -> bool:
        webhook, delivery = _own(stores, principal, endpoint_id), stores.deliveries.get(delivery_id)
        if delivery is None or delivery.endpoint_id != endpoint_id:
            raise NotFound("This webhook has no such delivery.")
        _require_enabled(webhook)
        if not stores.deliveries.retry(delivery_id, now):
            return False
        _record(stores, principal, webhook, "webhook.retried", now, caller, {"delivery": delivery_id})
        return True

    return await services.state.awrite(write)


def send_test_by_operator(
    stores: Stores, client_id: str, now: datetime, random: Callable[[int], bytes]
) -> list[Webhook]:
    """Have a test event sent to every enabled webhook of an account, and return them."""
    enabled = [each for each in stores.webhooks.list_for(client_id) if each.disabled_at is None]
    for webhook in enabled:
        stores.outbox.add(new_test_event(webhook, random(16).hex(), now))
        stores.audit.append(_operator_event("webhook.tested", webhook, now))
    return enabled


def retry_by_operator(stores: Stores, delivery: Delivery, now: datetime) -> bool:
    """Make a failed or skipped delivery due now. Returns False for any other delivery."""
    if not stores.deliveries.retry(delivery.delivery_id, now):
        return False
    webhook = stores.webhooks.get(delivery.endpoint_id or "")
    if webhook is not None:
        stores.audit.append(_operator_event("webhook.retried", webhook, now))
    return True


def new_test_event(webhook: Webhook, key: str, now: datetime) -> Event:
    data = {"endpoint_id": webhook.endpoint_id}
    return new_event(EventType.WEBHOOK_TEST, key, now, data, client_id=webhook.client_id)


async def _change(
    services: Services,
    principal: Principal,
    endpoint_id: str,
    action: str,
    caller: Caller,
    change: Callable[[Stores], bool],
) -> Webhook:
    """Change a webhook and record it, unless `change` returns False. Returns the webhook before. Raises NotFound."""
    now = services.clock()

    def write(stores: Stores) -> Webhook:
        webhook = _own(stores, principal, endpoint_id)
        if change(stores):
            _record(stores, principal, webhook, action, now, caller)
        return webhook

    return await services.state.awrite(write)


def _chosen(event_types: Collection[EventType]) -> str | None:
    """Return event types as they are stored. A webhook with all of them also receives those of later versions."""
    chosen = [each.value for each in ACCOUNT_EVENTS if each in event_types]
    if not chosen:
        raise InvalidRequest("Choose at least one event.")
    return None if len(chosen) == len(ACCOUNT_EVENTS) else " ".join(chosen)


def _require(services: Services, principal: Principal) -> None:
    if not services.settings.events.webhooks:
        raise NotFound("Webhooks are off on this service.")
    require(principal, "manage_webhooks", principal.account.client_id)


def _require_secrets(services: Services, principal: Principal) -> None:
    _require(services, principal)
    assert principal.session is not None
    require_recent_password(services, principal.session)


def _own(stores: Stores, principal: Principal, endpoint_id: str) -> Webhook:
    webhook = stores.webhooks.get(endpoint_id) if is_id(endpoint_id) else None
    if webhook is None or webhook.client_id != principal.account.client_id:
        raise NotFound("This account has no such webhook.")
    return webhook


def _require_enabled(webhook: Webhook) -> None:
    if webhook.disabled_at is not None:
        raise Conflict("This webhook is disabled. Enable it first.")


def _encrypt(services: Services, secret: str, endpoint_id: str) -> str:
    return webhook_secret.encrypt(
        secret, endpoint_id=endpoint_id, keyring=services.keyring.current(), random=services.random
    )


def _record(
    stores: Stores,
    principal: Principal,
    webhook: Webhook,
    action: str,
    now: datetime,
    caller: Caller,
    details: dict[str, object] | None = None,
) -> None:
    origin = EventOrigin.of(principal, now, caller)
    stores.audit.append(
        origin.event(action, "ok", {"webhook": webhook.endpoint_id, "url": webhook.url, **(details or {})})
    )


def _operator_event(action: str, webhook: Webhook, now: datetime) -> AuditEvent:
    details = {"webhook": webhook.endpoint_id, "url": webhook.url}
    return AuditEvent(
        at=now, action=action, result="ok", actor="operator", client_id=webhook.client_id, details=details
    )
