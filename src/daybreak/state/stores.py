"""The state database, and all its stores on one connection, in one transaction.

Services pass a function to `State.read` or `State.write`, which runs it in one transaction with the `Stores` of that
transaction. A write is committed completely or not at all. If the database does not answer within a bounded time,
every method raises `Unavailable` with the code `state_unavailable`.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Protocol, TypeVar

import sqlalchemy as sa

from daybreak.state.api_tokens import ApiTokenStore
from daybreak.state.audit import AuditStore
from daybreak.state.consumers import ConsumerStore
from daybreak.state.coverage import CoverageStore
from daybreak.state.deliveries import DeliveryStore
from daybreak.state.deltas import DeltaStore
from daybreak.state.directory import DirectoryStore
from daybreak.state.erasures import ErasureStore
from daybreak.state.file_faults import FileFaultStore
from daybreak.state.nodes import NodeStore, TaskFaultStore
from daybreak.state.notifications import NotificationStore
from daybreak.state.outbox import OutboxStore
from daybreak.state.passkeys import PasskeyStore
from daybreak.state.password_resets import PasswordResetStore
from daybreak.state.revoked_keys import RevokedKeyStore
from daybreak.state.run_requests import RunRequestStore
from daybreak.state.seats import IdentityStore, SeatStore
from daybreak.state.sessions import SessionStore
from daybreak.state.signatures import SignatureStore
from daybreak.state.snapshots import SnapshotStore
from daybreak.state.throttle import ThrottleStore
from daybreak.state.webhooks import WebhookStore

S = TypeVar("S")
T = TypeVar("T")


def _store(kind: Callable[[sa.Connection], S]) -> cached_property[S]:
    """Return an attribute that creates a store when it is first read. A transaction uses few of them."""
    return cached_property(lambda stores: kind(stores.connection))


class Stores:
    """Stores of one transaction. Not usable after it ends."""

    seats = _store(SeatStore)
    identities = _store(IdentityStore)
    sessions = _store(SessionStore)
    passkeys = _store(PasskeyStore)
    api_tokens = _store(ApiTokenStore)
    consumers = _store(ConsumerStore)
    throttle = _store(ThrottleStore)
    audit = _store(AuditStore)
    run_requests = _store(RunRequestStore)
    snapshots = _store(SnapshotStore)
    deltas = _store(DeltaStore)
    signatures = _store(SignatureStore)
    erasures = _store(ErasureStore)
    file_faults = _store(FileFaultStore)
    directory = _store(DirectoryStore)
    coverage = _store(CoverageStore)
    task_faults = _store(TaskFaultStore)
    nodes = _store(NodeStore)
    outbox = _store(OutboxStore)
    deliveries = _store(DeliveryStore)
    webhooks = _store(WebhookStore)
    notifications = _store(NotificationStore)
    password_resets = _store(PasswordResetStore)
    revoked_keys = _store(RevokedKeyStore)

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection


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


def delete_in_batches(state: State, delete: Callable[[Stores, int], int], at_most: int = 20_000) -> int:
    """Delete rows in short transactions, so that requests can write in between. Return their number.

    `delete` deletes up to `at_most` rows, and returns how many.
    """
    total = 0
    while True:
        count = state.write(lambda stores: delete(stores, at_most))
        total += count
        if count < at_most:
            return total
