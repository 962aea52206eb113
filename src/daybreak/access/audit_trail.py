"""Creation of audit events, and buffered writing of the frequent ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Unavailable
from daybreak.domain.identity import Caller, Principal, Seat
from daybreak.state.stores import State

_UNKNOWN_ACTOR = "unknown"
_MAX_USER_AGENT_LENGTH = 300
_FLUSH_SECONDS = 0.25
_MAX_PENDING = 2000


@dataclass(frozen=True, slots=True)
class EventOrigin:
    """The time, client, seat, account and credential (`subject`) of an audited action.

    Without a seat the actor is `unknown`. The submitted email is not recorded, because it may be a password.
    """

    at: datetime
    caller: Caller
    seat: Seat | None = None
    client_id: str | None = None
    subject: str | None = None

    @classmethod
    def of(cls, principal: Principal, at: datetime, caller: Caller) -> Self:
        """Return the origin of an action of `principal` on its account."""
        return cls(at, caller, principal.seat, principal.account.client_id, principal.subject)

    def event(self, action: str, result: str, details: Mapping[str, object] | None = None) -> AuditEvent:
        """Create an event of this origin. `result` is `ok` or an error code."""
        return AuditEvent(
            at=self.at,
            action=action,
            result=result,
            actor=self.seat.email if self.seat is not None else _UNKNOWN_ACTOR,
            seat_id=self.seat.seat_id if self.seat is not None else None,
            client_id=self.client_id,
            subject=self.subject,
            address=self.caller.address,
            user_agent=self.caller.user_agent[:_MAX_USER_AGENT_LENGTH],
            request_id=self.caller.request_id,
            details=details or {},
        )


class AuditBuffer:
    """Buffer of download events, written in one transaction every quarter of a second.

    A power cut loses at most a quarter of a second of them. Events of changes to access are not
    buffered: they are written in the transaction of the change.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._pending: list[AuditEvent] = []
        self._flush_task: asyncio.Task[None] | None = None
        self._closing = False

    async def record(self, event: AuditEvent) -> None:
        """Buffer an event. Raises Unavailable when the state database is unavailable and the buffer full.

        A download that cannot be recorded is not served.
        """
        if len(self._pending) >= _MAX_PENDING:
            await self.flush()
        self._pending.append(event)
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = asyncio.get_running_loop().create_task(self._flush_periodically())

    async def flush(self) -> None:
        """Write the buffered events. Raises Unavailable and keeps them."""
        events, self._pending = self._pending, []
        if not events:
            return

        try:
            await self._state.awrite(lambda stores: stores.audit.append_all(events))
        except Unavailable:
            self._pending = events + self._pending
            raise

    async def aclose(self) -> None:
        """Write the remaining events. Must be called before the state database is closed."""
        self._closing = True
        if self._flush_task is not None:
            await self._flush_task
        await self.flush()

    async def _flush_periodically(self) -> None:
        while self._pending and not self._closing:
            await asyncio.sleep(_FLUSH_SECONDS)
            try:
                await self.flush()
            except Unavailable:
                # The events stay in the buffer; `record` refuses more when it is full.
                await asyncio.sleep(4 * _FLUSH_SECONDS)
