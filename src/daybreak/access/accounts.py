"""The accounts that a seat has grants on. A seat with 100,000 accounts must not block other requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from daybreak.access.services import Services
from daybreak.domain.identity import GrantedAccount

T = TypeVar("T")

# Fewer accounts take about 20 ms, too little to hand to another thread.
_MAX_ON_EVENT_LOOP = 2_000


async def granted_accounts(services: Services, seat_id: str) -> tuple[GrantedAccount, ...]:
    """Return every account that the seat has a grant on, inactive ones included, by name. Raises Unavailable."""
    state = services.state
    count = await state.aread(lambda stores: stores.seats.count_granted_accounts(seat_id))
    if count <= _MAX_ON_EVENT_LOOP:
        return tuple(await state.aread(lambda stores: stores.seats.granted_accounts(seat_id)))
    return tuple(
        await services.threads.run(seat_id, lambda: state.read(lambda stores: stores.seats.granted_accounts(seat_id)))
    )


async def run_without_blocking(services: Services, seat_id: str, account_count: int, work: Callable[[], T]) -> T:
    """Return the result of `work`, whose duration grows with the number of accounts. Many run it in a thread."""
    return work() if account_count <= _MAX_ON_EVENT_LOOP else await services.threads.run(seat_id, work)
