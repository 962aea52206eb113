"""The state database: transactions over all its stores.

Every store method runs inside one transaction: services get a `Stores` bundle from `State.read` /
`State.write` (or the awaitable `aread` / `awrite`), and what one callable does is committed whole
or not at all. `Unavailable(state_unavailable)` is raised when the database is away, within a
bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from daybreak.domain.audit import AuditEvent
from daybreak.ports.access_stores import ApiTokenStore, DirectoryStore, SeatStore, SessionStore, ThrottleStore
from daybreak.ports.snapshot_store import SnapshotStore

T = TypeVar("T")


class AuditStore(Protocol):
    """Append-only trail."""

    def append(self, event: AuditEvent) -> None: ...

    def append_all(self, events: Sequence[AuditEvent]) -> None:
        """Many at once, in their order: a tenth of the cost of one by one."""

    def read(
        self,
        *,
        client_id: str | None = None,
        seat_id: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after_id: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> list[AuditEvent]:
        """Events that match everything given. `since` is included, `until` is not; `action` ending
        in `.` or `*` matches every action that begins so. `after_id` goes on from an event: to
        newer ones, or to older ones with `newest_first`."""

    def forget(self, before: datetime, *, at_most: int = 10_000) -> int:
        """Deletes events before that instant, the oldest first; how many. Call it again until it
        deletes fewer than `at_most`. The database refuses to delete any other event."""


@dataclass(frozen=True, slots=True)
class Node:
    """One running service process, as others see it."""

    node_id: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    roles: tuple[str, ...]


class NodeStore(Protocol):
    """Heartbeats of service nodes."""

    def beat(self, node: Node) -> None: ...

    def list_seen(self, since: datetime) -> list[Node]: ...

    def forget(self, before: datetime) -> int:
        """Deletes nodes not seen since that instant; how many."""


class Stores(Protocol):
    """Everything in the state database, within one transaction."""

    @property
    def seats(self) -> SeatStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def api_tokens(self) -> ApiTokenStore: ...
    @property
    def throttle(self) -> ThrottleStore: ...
    @property
    def audit(self) -> AuditStore: ...
    @property
    def snapshots(self) -> SnapshotStore: ...
    @property
    def directory(self) -> DirectoryStore: ...
    @property
    def nodes(self) -> NodeStore: ...


class State(Protocol):
    """The state database. `read` sees one consistent view, each statement of an `aread` what is committed when it
    starts; `write` and `awrite` are one durable transaction."""

    def read(self, work: Callable[[Stores], T]) -> T: ...

    def write(self, work: Callable[[Stores], T]) -> T: ...

    async def aread(self, work: Callable[[Stores], T]) -> T: ...

    async def awrite(self, work: Callable[[Stores], T]) -> T: ...

    def close(self) -> None: ...

    async def aclose(self) -> None: ...
