"""Events: what happened, who is notified, and the deliveries of one event."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

Channel = Literal["webhook", "mail"]


class EventType(StrEnum):
    """The type of an event, as receivers of webhooks see it."""

    SNAPSHOT_PUBLISHED = "snapshot.published"
    SNAPSHOT_LATE = "snapshot.late"
    SNAPSHOT_RECOVERED = "snapshot.recovered"
    SNAPSHOT_HELD = "snapshot.held"
    SNAPSHOT_FAILED = "snapshot.failed"
    DIRECTORY_FAILING = "directory.failing"
    TOKEN_EXPIRING = "token.expiring"  # noqa: S105 - not a secret
    TOKEN_IDLE = "token.idle"  # noqa: S105 - not a secret
    TOKEN_LEAKED = "token.leaked"  # noqa: S105 - not a secret
    SECOND_FACTOR_CHANGED = "second_factor.changed"
    PASSWORD_CHANGED = "password.changed"  # noqa: S105 - not a secret
    # Sent on request, or about webhooks themselves. Seats cannot choose these.
    SEAT_INVITED = "seat.invited"
    PASSWORD_RESET_REQUESTED = "password.reset_requested"  # noqa: S105 - not a secret
    WEBHOOK_TEST = "webhook.test"
    WEBHOOK_DISABLED = "webhook.disabled"


ACCOUNT_EVENTS = (EventType.SNAPSHOT_PUBLISHED, EventType.SNAPSHOT_LATE, EventType.SNAPSHOT_RECOVERED)
"""Sent to the webhooks of every account, and by mail to seats that may download its files."""
OPERATOR_EVENTS = (
    EventType.SNAPSHOT_LATE,
    EventType.SNAPSHOT_RECOVERED,
    EventType.SNAPSHOT_HELD,
    EventType.SNAPSHOT_FAILED,
    EventType.DIRECTORY_FAILING,
)
"""Sent by mail to operators."""
TOKEN_EVENTS = (EventType.TOKEN_IDLE,)
"""Sent by mail to the seat of the token."""
SECURITY_EVENTS = (
    EventType.TOKEN_EXPIRING,
    EventType.TOKEN_LEAKED,
    EventType.SECOND_FACTOR_CHANGED,
    EventType.PASSWORD_CHANGED,
)
"""Sent by mail to the seat that they concern."""
DEFAULT_EVENTS = frozenset({EventType.SNAPSHOT_LATE, EventType.DIRECTORY_FAILING, *SECURITY_EVENTS})
"""Mailed to a seat that has not chosen otherwise."""


class Event(msgspec.Struct, frozen=True):
    """One event in the outbox. `data` has JSON values.

    `seat_id` limits it to one seat, `client_id` to one account. An event with neither concerns the whole service.
    """

    event_id: str
    type: EventType
    at: datetime
    data: Mapping[str, object] = msgspec.field(default_factory=dict)
    client_id: str | None = None
    seat_id: str | None = None


def new_event(
    type_: EventType,
    key: str,
    at: datetime,
    data: Mapping[str, object],
    *,
    client_id: str | None = None,
    seat_id: str | None = None,
) -> Event:
    """Create an event. `key` names what happened: the outbox stores one event for each type and key."""
    return Event(digest_id(type_, key), type_, at, data, client_id, seat_id)


def digest_id(*parts: str) -> str:
    """Return the id that these parts always have: 32 hexadecimal digits."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


class Webhook(msgspec.Struct, frozen=True):
    """An endpoint of an account that receives events. Secrets are encrypted.

    `created_by` is the owner: the seat that created the endpoint or took it over. `previous_secret` also signs until
    `previous_until`. `failing_since` is the first failure after the last success. `event_types` are the names of
    those that it receives, separated by spaces; None for all. Test events are always received.
    """

    endpoint_id: str
    client_id: str
    url: str
    sealed_secret: str
    created_at: datetime
    created_by: str
    created_by_email: str
    previous_secret: str | None = None
    previous_until: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None
    failing_since: datetime | None = None
    event_types: str | None = None

    @property
    def state(self) -> Literal["enabled", "failing", "disabled"]:
        if self.disabled_at is not None:
            return "disabled"
        return "failing" if self.failing_since is not None else "enabled"

    def receives(self, type_: EventType) -> bool:
        """Return whether the endpoint receives events of this type."""
        return self.event_types is None or type_.value in self.event_types.split()


class DeliveryState(StrEnum):
    """pending -> delivered, failed or skipped. A failed delivery can be retried."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    SKIPPED = "skipped"


class Delivery(msgspec.Struct, frozen=True):
    """One event for one webhook or one seat. `body` is the JSON text that every attempt sends, or the data of a mail.

    `message_id` is the value of the header `webhook-id`. `status` and `detail` describe the last attempt.
    """

    delivery_id: str
    event_id: str
    message_id: str
    type: EventType
    channel: Channel
    body: str
    created_at: datetime
    client_id: str | None = None
    endpoint_id: str | None = None
    seat_id: str | None = None
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    next_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    status: int | None = None
    detail: str = ""


class Attempt(msgspec.Struct, frozen=True):
    """One attempt of a delivery. `status` is the HTTP or SMTP status, None without a response."""

    number: int
    at: datetime
    status: int | None
    detail: str
    milliseconds: int
