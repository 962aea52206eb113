"""The state database, and all its stores on one connection, in one transaction.

Services pass a function to `State.read` or `State.write`, which runs it in one transaction with the `Stores` of that
transaction. A write is committed completely or not at all. If the database does not answer within a bounded time,
every method raises `Unavailable` with the code `state_unavailable`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import sqlalchemy as sa

from daybreak.state.api_tokens import ApiTokenStore
from daybreak.state.audit import AuditStore
from daybreak.state.deliveries import DeliveryStore
from daybreak.state.deltas import DeltaStore
from daybreak.state.directory import DirectoryStore
from daybreak.state.erasures import ErasureStore
from daybreak.state.file_faults import FileFaultStore
from daybreak.state.identities import IdentityStore
from daybreak.state.nodes import NodeStore
from daybreak.state.notifications import NotificationStore
from daybreak.state.outbox import OutboxStore
from daybreak.state.passkeys import PasskeyStore
from daybreak.state.password_resets import PasswordResetStore
from daybreak.state.revoked_keys import RevokedKeyStore
from daybreak.state.run_requests import RunRequestStore
from daybreak.state.seats import SeatStore
from daybreak.state.sessions import SessionStore
from daybreak.state.signatures import SignatureStore
from daybreak.state.snapshots import SnapshotStore
from daybreak.state.task_faults import TaskFaultStore
from daybreak.state.throttle import ThrottleStore
from daybreak.state.webhooks import WebhookStore

T = TypeVar("T")


class Stores:
    """Stores of one transaction. Not usable after it ends."""

    def __init__(self, connection: sa.Connection) -> None:
        self.seats = SeatStore(connection)
        self.identities = IdentityStore(connection)
        self.sessions = SessionStore(connection)
        self.passkeys = PasskeyStore(connection)
        self.api_tokens = ApiTokenStore(connection)
        self.throttle = ThrottleStore(connection)
        self.audit = AuditStore(connection)
        self.run_requests = RunRequestStore(connection)
        self.snapshots = SnapshotStore(connection)
        self.deltas = DeltaStore(connection)
        self.signatures = SignatureStore(connection)
        self.erasures = ErasureStore(connection)
        self.file_faults = FileFaultStore(connection)
        self.directory = DirectoryStore(connection)
        self.task_faults = TaskFaultStore(connection)
        self.nodes = NodeStore(connection)
        self.outbox = OutboxStore(connection)
        self.deliveries = DeliveryStore(connection)
        self.webhooks = WebhookStore(connection)
        self.notifications = NotificationStore(connection)
        self.password_resets = PasswordResetStore(connection)
        self.revoked_keys = RevokedKeyStore(connection)


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

    def truncate_log(self) -> None:
        """Remove overwritten data from the log of the database. Does nothing on PostgreSQL, whose server keeps it.

        Raises Unavailable while another process reads the log.
        """

    def close(self) -> None: ...

    async def aclose(self) -> None: ...
