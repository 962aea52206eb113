"""Heartbeat of this node in the state database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from daybreak.domain.errors import Unavailable
from daybreak.state.nodes import Node
from daybreak.state.stores import State

_INTERVAL_SECONDS = 15.0


@asynccontextmanager
async def heartbeat(
    state: State, node: Callable[[datetime], Node], clock: Callable[[], datetime]
) -> AsyncIterator[None]:
    """Update the node's row while the context is open. All workers of a node update the same row."""
    task = asyncio.create_task(_beat(state, node, clock))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _beat(state: State, node: Callable[[datetime], Node], clock: Callable[[], datetime]) -> None:
    while True:
        now = clock()
        with suppress(Unavailable):
            await state.awrite(lambda stores, now=now: stores.nodes.record_heartbeat(node(now)))  # type: ignore[misc]
        await asyncio.sleep(_INTERVAL_SECONDS)
