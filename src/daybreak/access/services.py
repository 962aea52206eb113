"""Dependencies of requests, built once per process."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar

from daybreak.access.fair_share import BoundedThreads
from daybreak.access.link_usage import AuditBuffer, LinkRate
from daybreak.credentials.keyring import KeyringFile
from daybreak.credentials.passwords import PasswordHashing
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import RequestError
from daybreak.domain.identity import GrantedAccount
from daybreak.filestore.file_store import FileStore
from daybreak.oidc.provider import Provider
from daybreak.settings import Settings
from daybreak.state.stores import State, Stores

T = TypeVar("T")
# A seat with 100,000 accounts must not block other requests. Fewer than these take about 20 ms, too little to hand to
# another thread.
_MAX_ON_EVENT_LOOP = 2_000


@dataclass(frozen=True, slots=True)
class Services:
    """Dependencies of endpoints, pages and their services, one instance per worker process.

    `clock` returns UTC instants, `random(n)` n random bytes. `provider` is the provider of single sign-on, None if it
    is not configured. `audit_buffer` must be closed before the state database.
    """

    settings: Settings
    state: State
    files: FileStore
    keyring: KeyringFile
    hashing: PasswordHashing
    audit_buffer: AuditBuffer
    link_rate: LinkRate
    byte_rate: LinkRate
    clock: Callable[[], datetime]
    random: Callable[[int], bytes]
    provider: Provider | None = None
    threads: BoundedThreads = field(default_factory=BoundedThreads)

    async def commit(self, work: Callable[[Stores], T | RequestError]) -> T:
        """Run `work` in a transaction, and return its result. An error that it returns is raised after the commit.

        What `work` has written, such as an audit event, is therefore kept.
        """
        outcome = await self.state.awrite(work)
        if isinstance(outcome, RequestError):
            raise outcome
        return outcome

    async def record(self, event: AuditEvent) -> None:
        """Append an event to the audit trail, in a separate transaction. Raises Unavailable."""
        await self.state.awrite(lambda stores: stores.audit.append(event))

    async def apply_revocations(self, revoked_keys: int) -> bool:
        """Apply the revocations of keys if their number is new. What was verified before must then be verified again.

        The statement that resolves a session or an API token counts them.
        """
        if revoked_keys == self.keyring.revoked_count:
            return False
        await self.state.aread(partial(apply_revocations, self.keyring))
        return True

    async def granted_accounts(self, seat_id: str) -> tuple[GrantedAccount, ...]:
        """Return every account that the seat has a grant on, inactive ones included, by name. Raises Unavailable."""
        state = self.state
        count = await state.aread(lambda stores: stores.seats.count_granted_accounts(seat_id))

        def read(stores: Stores) -> list[GrantedAccount]:
            return stores.seats.granted_accounts(seat_id)

        if count <= _MAX_ON_EVENT_LOOP:
            return tuple(await state.aread(read))
        return tuple(await self.threads.run(seat_id, lambda: state.read(read)))

    async def run_without_blocking(self, seat_id: str, account_count: int, work: Callable[[], T]) -> T:
        """Return the result of `work`, whose duration grows with the number of accounts. Many run it in a thread."""
        return work() if account_count <= _MAX_ON_EVENT_LOOP else await self.threads.run(seat_id, work)

    def new_id(self) -> str:
        """Return a random UUID as lower-case text."""
        return new_id(self.random)


def apply_revocations(keyring: KeyringFile, stores: Stores) -> None:
    """Have the keyring of this process refuse the keys that were revoked on any node."""
    if stores.revoked_keys.count() != keyring.revoked_count:
        keyring.revoke(stores.revoked_keys.kids())


def new_id(random: Callable[[int], bytes]) -> str:
    """Return a random UUID as lower-case text."""
    return str(uuid.UUID(bytes=random(16), version=4))
