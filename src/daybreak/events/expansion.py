"""Creation of the deliveries of an event: one for each webhook and each seat that receives it.

Recipients are added in small transactions. An interrupted expansion continues at its cursor, and the id of a delivery
depends on its event and recipient only, so that no recipient is left out or added twice. Messages to webhooks follow
Standard Webhooks 1.0.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache

import msgspec

import daybreak
from daybreak.catalogue.download_paths import manifest_path
from daybreak.credentials import webhook_secret
from daybreak.credentials.keyring import Keyring
from daybreak.domain.events import (
    ACCOUNT_EVENTS,
    DEFAULT_EVENTS,
    OPERATOR_EVENTS,
    SECURITY_EVENTS,
    TOKEN_EVENTS,
    Delivery,
    Event,
    EventType,
    Webhook,
    digest_id,
)
from daybreak.settings import Settings
from daybreak.snapshots.brief import publication_brief
from daybreak.state.outbox import OutboxEntry
from daybreak.state.stores import State, Stores

_PAGE = 100
# A cursor is the kind of recipients and the last one that has a delivery. Seats follow webhooks.
_WEBHOOKS, _SEATS = "webhook:", "seat:"


async def expand(
    state: State, settings: Settings, entry: OutboxEntry, now: datetime, proceed: Callable[[], Awaitable[bool]]
) -> None:
    """Add the deliveries of an event that are missing, while `proceed` returns True. Raises Unavailable."""
    event, cursor = entry.event, entry.cursor or _WEBHOOKS
    while cursor and await proceed():

        def read(stores: Stores, after: str = cursor) -> tuple[list[Delivery], str]:
            return _page(stores, settings, event, after, now)

        page, following = await state.aread(read)

        def write(stores: Stores, page: list[Delivery] = page, following: str = following) -> None:
            stores.deliveries.add_all(page)
            if following:
                stores.outbox.advance(event.event_id, following)
            else:
                stores.outbox.complete(event.event_id, now)

        await state.awrite(write)
        cursor = following


def account_data(stores: Stores, settings: Settings, event: Event, client_id: str) -> dict[str, object]:
    data: dict[str, object] = {"client_id": client_id, **event.data}
    if event.type is EventType.SNAPSHOT_PUBLISHED:
        entries = stores.snapshots.manifest(str(event.data["snapshot_id"]), client_id)
        data["rows"] = {entry.resource: entry.rows for entry in entries}
        data["manifest_url"] = settings.base_url + manifest_path(client_id)
        chain = stores.deltas.chain(client_id)
        data["brief"] = publication_brief(chain, str(event.data["snapshot_id"]), len(entries))
    return data


def _page(stores: Stores, settings: Settings, event: Event, cursor: str, now: datetime) -> tuple[list[Delivery], str]:
    """Return deliveries to the recipients after the cursor, and the next cursor, empty at the end."""
    if cursor.startswith(_WEBHOOKS):
        for_webhooks = settings.events.webhooks and event.type in ACCOUNT_EVENTS
        webhooks = stores.webhooks.list_enabled(cursor.removeprefix(_WEBHOOKS), _PAGE) if for_webhooks else []
        page = list(_to_webhooks(stores, settings, event, webhooks, now))
        return page, f"{_WEBHOOKS}{webhooks[-1].endpoint_id}" if len(webhooks) == _PAGE else _SEATS
    if event.type not in ACCOUNT_EVENTS and event.type not in OPERATOR_EVENTS:
        return list(_single(stores, settings, event, now)), ""
    after_id = cursor.removeprefix(_SEATS)
    seat_ids = stores.notifications.recipients(event.type, after_id, _PAGE) if settings.mail.enabled else []
    following = f"{_SEATS}{seat_ids[-1]}" if len(seat_ids) == _PAGE else ""
    return [_to_seat(event, each, now) for each in seat_ids], following


def _to_webhooks(
    stores: Stores, settings: Settings, event: Event, webhooks: Sequence[Webhook], now: datetime
) -> Iterator[Delivery]:
    """Yield the deliveries to the endpoints that an event concerns: they chose its type, existed, and their account has
    files. An account is read once for all of them.
    """
    current = stores.snapshots.current() if event.type is EventType.SNAPSHOT_PUBLISHED else None
    if current is not None and current.snapshot_id != event.data["snapshot_id"]:
        current = None

    @cache
    def body_for(client_id: str) -> str | None:
        if current is not None and not stores.snapshots.leader_known(current.snapshot_id, client_id):
            return None
        return message_body(event, account_data(stores, settings, event, client_id))

    for webhook in webhooks:
        if webhook.created_at > event.at or not webhook.receives(event.type):
            continue
        body = body_for(webhook.client_id)
        if body is not None:
            yield _to_webhook(event, webhook, body, now)


def _single(stores: Stores, settings: Settings, event: Event, now: datetime) -> Iterator[Delivery]:
    """Yield the deliveries of an event that concerns one endpoint, seat or account."""
    if event.type is EventType.WEBHOOK_TEST:
        webhook = stores.webhooks.get(str(event.data["endpoint_id"]))
        if webhook is not None and settings.events.webhooks:
            body = message_body(event, account_data(stores, settings, event, webhook.client_id))
            yield _to_webhook(event, webhook, body, now)
    elif settings.mail.enabled:
        for seat_id in _seats(stores, event):
            yield _to_seat(event, seat_id, now)


def _seats(stores: Stores, event: Event) -> list[str]:
    if event.type is EventType.WEBHOOK_DISABLED:
        managers = stores.notifications.managers(event.client_id or "")
        creator = str(event.data["created_by"])
        return [creator] if creator in managers else managers
    seat = None if event.seat_id is None else stores.seats.by_id(event.seat_id)
    if seat is None or seat.disabled:
        return []
    is_chosen = stores.notifications.choices(seat.seat_id).get(event.type, event.type in DEFAULT_EVENTS)
    return [seat.seat_id] if is_chosen or event.type not in (*SECURITY_EVENTS, *TOKEN_EVENTS) else []


def _to_webhook(event: Event, webhook: Webhook, body: str, now: datetime) -> Delivery:
    return Delivery(
        delivery_id=digest_id(event.event_id, webhook.endpoint_id),
        event_id=event.event_id,
        message_id=message_id(event, webhook.client_id),
        type=event.type,
        channel="webhook",
        body=body,
        created_at=now,
        client_id=webhook.client_id,
        endpoint_id=webhook.endpoint_id,
        next_attempt_at=now,
    )


def _to_seat(event: Event, seat_id: str, now: datetime) -> Delivery:
    delivery_id = digest_id(event.event_id, seat_id)
    data: Mapping[str, object] = {**event.data, "at": event.at}
    return Delivery(
        delivery_id=delivery_id,
        event_id=event.event_id,
        message_id=f"msg_{delivery_id}",
        type=event.type,
        channel="mail",
        body=msgspec.json.encode(data).decode(),
        created_at=now,
        client_id=event.client_id,
        seat_id=seat_id,
        next_attempt_at=now,
    )


def message_id(event: Event, client_id: str) -> str:
    """Return the id of an event's message to an account, the same for all its endpoints and attempts."""
    return f"msg_{digest_id(event.event_id, client_id)}"


def message_body(event: Event, data: Mapping[str, object]) -> str:
    """Return the body of a message: `{"type", "timestamp", "data"}`."""
    timestamp = event.at.isoformat().replace("+00:00", "Z")
    return msgspec.json.encode({"type": event.type.value, "timestamp": timestamp, "data": data}).decode()


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
