"""The accounts in reach of a seat, however many: somebody with 100,000 must not hold up everybody else's requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from daybreak.domain.identity import Reach
from daybreak.ports.state import State

T = TypeVar("T")

# Fewer are dealt with in less time than two hand-overs between threads are worth caring about: some 20 ms.
_LONG = 2_000


async def reach_of(state: State, seat_id: str) -> tuple[Reach, ...]:
    """Every account with a grant of the seat, inactive ones too, by name. Raises Unavailable."""
    size = await state.aread(lambda stores: stores.seats.reach_size(seat_id))
    if size <= _LONG:
        return tuple(await state.aread(lambda stores: stores.seats.reach(seat_id)))
    return tuple(await asyncio.to_thread(state.read, lambda stores: stores.seats.reach(seat_id)))


async def beside_requests(accounts: int, work: Callable[[], T]) -> T:
    """What `work` gives, which takes time for each of so many accounts: by a thread when they are many."""
    return work() if accounts <= _LONG else await asyncio.to_thread(work)
