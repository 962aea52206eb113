"""Figures of an account, from its published files or from a cache: equal files are read once per worker."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.insight.campaigns import CampaignFigures, campaign_figures
from daybreak.insight.members import (
    CommunityFigures,
    GrowthFigures,
    MemberFigures,
    UsageFigures,
    community_figures,
    growth_figures,
    member_figures,
    usage_figures,
)
from daybreak.insight.published_tables import Interruption, PublishedTables
from daybreak.snapshots.freshness import freshness
from daybreak.state.stores import Stores
from daybreak.web.dashboard.insight.selection import FirstDays
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.fair_queue import FairQueue, in_thread

P = ParamSpec("P")
T = TypeVar("T")
MAXIMUM_CAMPAIGNS = 1000
CAMPAIGN_FILES = ("campaigns", "campaign_links")
_MAXIMUM_ENTRIES = 32
_GRACE_SECONDS = 5.0
# A page starts seven computations.
_MAX_PER_ACCOUNT = 28
_MAX_WAITING = 200


class ValueCache(Generic[T]):
    """Up to 32 values by the content and the period that they were computed from. The oldest is dropped first.

    Requests for the same value wait for one computation. It is canceled when the last of them has left, and none has
    come in `grace_seconds`: a page that shows a skeleton reloads itself.
    """

    def __init__(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        self._grace_seconds = grace_seconds
        self._tasks: dict[Hashable, asyncio.Future[T]] = {}
        self._requests: Counter[asyncio.Future[T]] = Counter()

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value, or compute and cache it. A failed computation is not cached."""
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.ensure_future(compute())
            if len(self._tasks) >= _MAXIMUM_ENTRIES:
                del self._tasks[next(iter(self._tasks))]
            self._tasks[key] = task
        self._requests[task] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._requests[task] -= 1
            if not task.done():
                asyncio.get_running_loop().call_later(self._grace_seconds, self._cancel_unwanted, key, task)
            elif task.cancelled() or task.exception() is not None:
                self._drop(key, task)
            if task.done():
                del self._requests[task]

    def _cancel_unwanted(self, key: Hashable, task: asyncio.Future[T]) -> None:
        if not self._requests[task]:
            del self._requests[task]
            if not task.done():
                task.cancel()
                self._drop(key, task)

    def _drop(self, key: Hashable, task: asyncio.Future[T]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]


class FigureCache:
    """One cache per kind of figure, one instance per worker. Files are read one after another."""

    def __init__(self) -> None:
        self._values: defaultdict[str, ValueCache[Any]] = defaultdict(ValueCache)
        self._queue = FairQueue("insight", 1, max_waiting=_MAX_WAITING, max_waiting_per_account=_MAX_PER_ACCOUNT)
        self._computing: Counter[str] = Counter()

    async def get(self, kind: str, key: Hashable, account: str, task: Callable[[Interruption], T]) -> T:
        """Return a cached value, or the result of a task: see `run`."""
        found: T = await self._values[kind].get(key, lambda: self.run(account, task))
        return found

    def is_computing_for(self, account: str) -> bool:
        """Whether figures of an account are being computed, or wait for their turn."""
        return self._computing[account] > 0

    async def run(self, account: str, task: Callable[[Interruption], T]) -> T:
        """Run a task that reads files in a thread, after others. End it when canceled. Raises Unavailable(busy)."""
        self._computing[account] += 1
        try:
            async with self._queue.slot(account):
                # An engine misses what comes before its query.
                interruption = Interruption()
                return await in_thread(partial(task, interruption), interruption.set)
        finally:
            self._computing[account] -= 1
            if not self._computing[account]:
                del self._computing[account]


@dataclass(frozen=True, slots=True)
class AccountFigures:
    """Figures of one account for every day."""

    usage: UsageFigures
    members: MemberFigures
    growth: GrowthFigures
    communities: CommunityFigures
    campaigns: CampaignFigures

    def first_days(self, default: date) -> FirstDays:
        messages = {day for day, _, _ in self.usage}.union(self.campaigns)
        return FirstDays(min(messages, default=default), min(self.growth, default=default))


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """Figures of the published snapshot. `entries` are the account's manifest entries in it by resource name."""

    cache: FigureCache
    page: PageRequest
    snapshot: Snapshot
    entries: Mapping[str, ManifestEntry]

    async def get(
        self,
        compute: Callable[Concatenate[PublishedTables, P], T],
        resources: Sequence[str],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return figures of files from the cache, or compute them in a thread. Raises FileStoreError, Unavailable."""
        found, store = [self.entries[name] for name in resources], self.page.services.files

        def task(interruption: Interruption) -> T:
            with PublishedTables.open(store, found, interruption) as tables:
                return compute(tables, *args, **kwargs)

        # The row count of a file is part of its content, of which all formats have the same.
        contents = (next(iter(entry.formats.values())).content_sha256 for entry in found)
        key = (*contents, *args, *kwargs.values())
        return await self.cache.get(compute.__name__, key, self.page.queue_account, task)

    async def of_account(self) -> AccountFigures:
        """Return the figures for every day. Raises FileStoreError, Unavailable."""
        # The computations that are not cached start together, so that the next request finds all of them under way.
        return AccountFigures(
            *await asyncio.gather(
                self.get(usage_figures, ("outbound_message_type_usage",)),
                self.get(member_figures, ("members",)),
                self.get(growth_figures, ("member_state_changes",)),
                self.get(community_figures, ("communities",)),
                self.get(campaign_figures, CAMPAIGN_FILES),
            )
        )


async def load_published_figures(cache: FigureCache, page: PageRequest) -> PublishedFigures | None:
    """Read which files of the account are published. Return None if none are."""

    def read(stores: Stores) -> PublishedFigures | None:
        snapshot = freshness(stores.snapshots, page.now, page.dashboard.publish_at).snapshot
        entries = [] if snapshot is None else stores.snapshots.manifest(snapshot.snapshot_id, page.client_id)
        if snapshot is None or not entries:
            return None
        return PublishedFigures(cache, page, snapshot, {entry.resource: entry for entry in entries})

    return await page.read(read)
