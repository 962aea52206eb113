"""Ports of events in the state database: outbox, deliveries, webhooks, choices of seats, password resets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from daybreak.domain.events import Attempt, Channel, Delivery, DeliveryState, Event, EventType, Webhook


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """An event whose deliveries are incomplete. `cursor` is the last recipient that has one."""

    event: Event
    cursor: str


class OutboxStore(Protocol):
    """Events, written in the transactions that cause them, and the lease of the deliverer."""

    def add(self, event: Event) -> bool:
        """Add an event. Returns False when it was added before."""

    def latest(self, type_: EventType) -> Event | None:
        """Return the most recent event of a type."""

    def incomplete(self, limit: int) -> list[OutboxEntry]:
        """Return events without all their deliveries, oldest first."""

    def advance(self, event_id: str, cursor: str) -> None:
        """Record that every recipient up to `cursor` has a delivery."""

    def complete(self, event_id: str, now: datetime) -> None:
        """Record that every recipient has a delivery."""

    def has_work(self, now: datetime) -> bool:
        """Return whether an event is incomplete or a delivery is due."""

    def take_lease(self, holder: str, now: datetime, until: datetime) -> bool:
        """Take or renew the lease of the deliverer. Returns False when another process has it."""

    def release_lease(self, holder: str) -> None:
        """End the lease, if `holder` has it."""

    def delete_before(self, before: datetime) -> int:
        """Delete events before that instant, with their finished deliveries, and return the number of events.

        Events with pending deliveries stay.
        """


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Selects deliveries. Fields that are None match every delivery."""

    client_id: str | None = None
    endpoint_id: str | None = None
    channel: Channel | None = None
    state: DeliveryState | None = None


class DeliveryStore(Protocol):
    """Deliveries of events and their attempts."""

    def add_all(self, deliveries: Sequence[Delivery]) -> None:
        """Add deliveries. Those that exist stay unchanged."""

    def due_webhooks(self, now: datetime, *, per_endpoint: int, exclude: Collection[str]) -> list[Delivery]:
        """Return the first due deliveries of each endpoint that is not in `exclude`."""

    def due_mails(self, now: datetime, limit: int) -> list[Delivery]: ...

    def get(self, delivery_id: str) -> Delivery | None: ...

    def list_recent(self, selected: DeliveryFilter, limit: int) -> list[Delivery]:
        """Return deliveries, newest first."""

    def attempts(self, delivery_ids: Sequence[str]) -> dict[str, list[Attempt]]:
        """Return the attempts of each delivery, oldest first."""

    def record(
        self, delivery: Delivery, attempt: Attempt, state: DeliveryState, *, next_attempt_at: datetime | None = None
    ) -> bool:
        """Record an attempt and its result. Returns False, and changes nothing, if it was recorded before."""

    def skip(self, delivery: Delivery, now: datetime, reason: str) -> None:
        """End a delivery without an attempt."""

    def retry(self, delivery_id: str, now: datetime) -> bool:
        """Make a failed or skipped delivery due now. Returns False for any other delivery."""

    def end_pending(self, endpoint_id: str, now: datetime, reason: str) -> int:
        """Change the pending deliveries of an endpoint to failed, and return their number."""


class WebhookStore(Protocol):
    """Endpoints of accounts."""

    def add(self, webhook: Webhook) -> None: ...

    def get(self, endpoint_id: str) -> Webhook | None: ...

    def list_for(self, client_id: str) -> list[Webhook]:
        """Return the endpoints of an account, oldest first."""

    def list_for_update(self, client_id: str) -> list[Webhook]:
        """Return the endpoints of an account, and lock the account: other callers wait until this transaction ends."""

    def list_enabled(self, after_id: str, limit: int) -> list[Webhook]:
        """Return enabled endpoints of active accounts with ids greater than `after_id`, by id."""

    def remove(self, endpoint_id: str) -> bool:
        """Delete an endpoint with its deliveries. Returns False when it does not exist."""

    def rotate(self, endpoint_id: str, sealed_secret: str, previous_until: datetime) -> bool:
        """Replace the secret. The replaced one also signs until `previous_until`."""

    def disable(self, endpoint_id: str, now: datetime, reason: str) -> bool:
        """Disable an endpoint. Returns False when it is disabled or does not exist."""

    def enable(self, endpoint_id: str) -> bool:
        """Enable an endpoint. Returns False when it is enabled or does not exist."""

    def list_failing(self) -> list[str]:
        """Return the ids of endpoints whose last attempt failed."""

    def set_failing(self, endpoint_id: str, since: datetime | None) -> None: ...

    def is_account_active(self, client_id: str) -> bool: ...

    def sealed_secrets(self) -> list[str]:
        """Return every stored secret, encrypted."""

    def reseal(self, reseal: Callable[[str, str], str | None]) -> int:
        """Replace each secret by `reseal(endpoint_id, sealed)`; None keeps it. Returns the number replaced."""


class NotificationStore(Protocol):
    """The events that each seat receives by mail."""

    def choices(self, seat_id: str) -> dict[EventType, bool]:
        """Return what the seat has chosen. Types that are missing have their default."""

    def choose(self, seat_id: str, choices: Mapping[EventType, bool]) -> None: ...

    def managers(self, client_id: str) -> list[str]:
        """Return the ids of enabled seats that are owners or admins of an account, in order."""

    def recipients(self, type_: EventType, after_id: str, limit: int) -> list[str]:
        """Return the ids, greater than `after_id`, of enabled seats that receive a type of event, in order.

        Account events are for seats that may download files of an active account, operator events for operators.
        """


@dataclass(frozen=True, slots=True)
class PasswordReset:
    """A link that sets a new password. `digest` is the SHA-256 of its token in hex."""

    digest: str
    seat_id: str
    created_at: datetime
    expires_at: datetime


class PasswordResetStore(Protocol):
    """Unused links that set a new password: at most one for each seat."""

    def replace(self, reset: PasswordReset) -> None:
        """Store a reset. It replaces an earlier one of the seat."""

    def find(self, digest: str, now: datetime) -> str | None:
        """Return the seat of a valid reset.

        A reset is invalid after its expiry, and after a change of the password.
        """

    def use(self, digest: str, now: datetime) -> str | None:
        """Delete a valid reset and return its seat, atomically: only one caller receives it."""

    def delete_expired(self, now: datetime) -> int: ...
