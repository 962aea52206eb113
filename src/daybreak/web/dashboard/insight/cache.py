"""Cache of insight figures: files with the same content are read once per worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from daybreak.insight.campaign_list import CampaignPage
from daybreak.insight.figures import (
    Campaign,
    CampaignDetails,
    CampaignFigures,
    CommunityFigures,
    GrowthFigures,
    LinkFigures,
    MemberFigures,
    UsageFigures,
)

T = TypeVar("T")

_MAXIMUM_ENTRIES = 32


class ValueCache(Generic[T]):
    """Up to 32 values by the content and the period that they were computed from. The oldest is dropped first.

    Requests for the same value wait for one computation, which continues when a request is canceled.
    """

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Future[T]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value, or compute and cache it. A failed computation is not cached."""
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.ensure_future(compute())
            if len(self._tasks) >= _MAXIMUM_ENTRIES:
                del self._tasks[next(iter(self._tasks))]
            self._tasks[key] = task
        try:
            return await asyncio.shield(task)
        finally:
            if task.done() and (task.cancelled() or task.exception() is not None) and self._tasks.get(key) is task:
                del self._tasks[key]


@dataclass(frozen=True, slots=True)
class FigureCache:
    """One cache per kind of figure, one instance per worker. Files are read one after another."""

    usage: ValueCache[UsageFigures] = field(default_factory=ValueCache)
    members: ValueCache[MemberFigures] = field(default_factory=ValueCache)
    growth: ValueCache[GrowthFigures] = field(default_factory=ValueCache)
    communities: ValueCache[CommunityFigures] = field(default_factory=ValueCache)
    campaigns: ValueCache[CampaignFigures] = field(default_factory=ValueCache)
    largest_campaigns: ValueCache[tuple[Campaign, ...]] = field(default_factory=ValueCache)
    links: ValueCache[LinkFigures] = field(default_factory=ValueCache)
    pages: ValueCache[CampaignPage] = field(default_factory=ValueCache)
    details: ValueCache[CampaignDetails | None] = field(default_factory=ValueCache)
    slot: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def run(self, task: Callable[[], T]) -> T:
        """Run a task that reads files in a thread, after the tasks before it."""
        async with self.slot:
            return await asyncio.to_thread(task)
