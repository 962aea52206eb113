"""Port of the state database.

Services pass a function to `State.read` or `State.write`, which runs it in one transaction with the `Stores` of that
transaction. A write is committed completely or not at all. If the database does not answer within a bounded time,
every method raises `Unavailable` with the code `state_unavailable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.ports.access_stores import (
    ApiTokenStore,
    DirectoryStore,
    IdentityStore,
    PasskeyStore,
    SeatStore,
    SessionStore,
    ThrottleStore,
)
from daybreak.ports.delta_store import DeltaStore
from daybreak.ports.erasure_store import ErasureStore
from daybreak.ports.event_stores import (
    DeliveryStore,
    NotificationStore,
    OutboxStore,
    PasswordResetStore,
    WebhookStore,
)
from daybreak.ports.run_requests import RunRequestStore
from daybreak.ports.snapshot_store import SnapshotStore

T = TypeVar("T")


class AuditStore(Protocol):
    """The audit trail, which is append-only."""

    def append(self, event: AuditEvent) -> None: ...

    def append_all(self, events: Sequence[AuditEvent]) -> None:
        """Append events in order, ten times as fast as single calls."""

    def read(self, query: AuditQuery) -> list[AuditEvent]:
        """Return the events that match `query`, in the order that it specifies."""

    def count(self, query: AuditQuery, *, at_most: int) -> int:
        """Return the number of events that match the filters of `query`, or `at_most` if there are more."""

    def delete_before(self, before: datetime, *, at_most: int = 10_000) -> int:
        """Delete events before that instant, oldest first, and return how many.

        Repeat until fewer than `at_most` were deleted. The database refuses to delete any other event.
        """


@dataclass(frozen=True, slots=True)
class Node:
    """A running service process, as its heartbeat describes it."""

    node_id: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    roles: tuple[str, ...]


class NodeStore(Protocol):
    """Heartbeats of service nodes."""

    def record_heartbeat(self, node: Node) -> None: ...

    def list_seen(self, since: datetime) -> list[Node]: ...

    def delete_before(self, before: datetime) -> int:
        """Delete nodes not seen since that instant, and return how many."""


class Stores(Protocol):
    """All stores of the state database, in one transaction."""

    @property
    def seats(self) -> SeatStore: ...
    @property
    def identities(self) -> IdentityStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def passkeys(self) -> PasskeyStore: ...
    @property
    def api_tokens(self) -> ApiTokenStore: ...
    @property
    def throttle(self) -> ThrottleStore: ...
    @property
    def audit(self) -> AuditStore: ...
    @property
    def snapshots(self) -> SnapshotStore: ...
    @property
    def deltas(self) -> DeltaStore: ...
    @property
    def erasures(self) -> ErasureStore: ...
    @property
    def run_requests(self) -> RunRequestStore: ...
    @property
    def directory(self) -> DirectoryStore: ...
    @property
    def nodes(self) -> NodeStore: ...
    @property
    def outbox(self) -> OutboxStore: ...
    @property
    def deliveries(self) -> DeliveryStore: ...
    @property
    def webhooks(self) -> WebhookStore: ...
    @property
    def notifications(self) -> NotificationStore: ...
    @property
    def password_resets(self) -> PasswordResetStore: ...


class State(Protocol):
    """The state database. `aread` and `awrite` are for event loops, `read` and `write` for other threads."""

    def read(self, work: Callable[[Stores], T]) -> T:
        """Run `work` on one consistent view of the database."""

    def write(self, work: Callable[[Stores], T]) -> T:
        """Run `work` in one transaction, which is durable on return."""

    async def aread(self, work: Callable[[Stores], T]) -> T:
        """Run `work` without a transaction: each statement sees what is committed when it starts."""

    async def awrite(self, work: Callable[[Stores], T]) -> T:
        """Run `work` in one transaction, which is durable on return."""

    def close(self) -> None: ...

    async def aclose(self) -> None: ...
