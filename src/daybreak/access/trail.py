"""The audit trail: how an event is written, and how the frequent ones are written together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Unavailable
from daybreak.domain.identity import Caller, Principal, Seat
from daybreak.ports.state import State

_UNKNOWN_ACTOR = "unknown"
_FLUSH_SECONDS = 0.25
_MAXIMUM_WAITING = 2000


def event(
    action: str,
    result: str,
    *,
    at: datetime,
    caller: Caller,
    seat: Seat | None = None,
    client_id: str | None = None,
    subject: str | None = None,
    details: Mapping[str, object] | None = None,
) -> AuditEvent:
    """An event of a seat; of nobody known when there is none. What was typed as an email is not
    kept: people type passwords there."""
    return AuditEvent(
        at=at,
        action=action,
        result=result,
        actor=seat.email if seat is not None else _UNKNOWN_ACTOR,
        seat_id=seat.seat_id if seat is not None else None,
        client_id=client_id,
        subject=subject,
        address=caller.address,
        user_agent=caller.user_agent[:300],
        request_id=caller.request_id,
        details=details or {},
    )


def event_of(
    principal: Principal,
    action: str,
    result: str,
    *,
    at: datetime,
    caller: Caller,
    details: Mapping[str, object] | None = None,
) -> AuditEvent:
    """An event of whoever a credential stands for, on its account."""
    return event(
        action,
        result,
        at=at,
        caller=caller,
        seat=principal.seat,
        client_id=principal.account.client_id,
        subject=principal.subject,
        details=details,
    )


class TrailBuffer:
    """Events of downloads: many a second, so written in one transaction every quarter second.

    A power cut loses a quarter second of them at most. Everything that changes access is written
    with the change itself and never comes here.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._waiting: list[AuditEvent] = []
        self._flushing: asyncio.Task[None] | None = None
        self._closing = False

    async def record(self, recorded: AuditEvent) -> None:
        """Takes the event. Raises Unavailable when the state database is away and so many wait
        that no more can be remembered: what is not recorded is not served."""
        if len(self._waiting) >= _MAXIMUM_WAITING:
            await self.flush()
        self._waiting.append(recorded)
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_soon())

    async def flush(self) -> None:
        """Writes what waits. Raises Unavailable, and then it waits on."""
        events, self._waiting = self._waiting, []
        if not events:
            return

        try:
            await self._state.awrite(lambda stores: stores.audit.append_all(events))
        except Unavailable:
            self._waiting = events + self._waiting
            raise

    async def aclose(self) -> None:
        """Writes the rest; call it before the state database is closed."""
        self._closing = True
        if self._flushing is not None:
            await self._flushing
        await self.flush()

    async def _flush_soon(self) -> None:
        while self._waiting and not self._closing:
            await asyncio.sleep(_FLUSH_SECONDS)
            try:
                await self.flush()
            except Unavailable:
                # They wait for the next round; `record` says no when too many do.
                await asyncio.sleep(4 * _FLUSH_SECONDS)
