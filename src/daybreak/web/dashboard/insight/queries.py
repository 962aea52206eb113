"""Figures of an account, from its published files or from the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Concatenate, ParamSpec, TypeVar

from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.insight.campaigns import campaign_figures
from daybreak.insight.figures import CampaignFigures, CommunityFigures, GrowthFigures, MemberFigures, UsageFigures
from daybreak.insight.members import community_figures, growth_figures, member_figures, usage_figures
from daybreak.insight.published_tables import Interruption, PublishedTables
from daybreak.snapshots.freshness import freshness
from daybreak.state.stores import Stores
from daybreak.web.dashboard.insight.cache import FigureCache
from daybreak.web.dashboard.insight.selection import FirstDays
from daybreak.web.dashboard.page_request import PageRequest

P = ParamSpec("P")
T = TypeVar("T")

MAXIMUM_CAMPAIGNS = 1000
CAMPAIGN_FILES = ("campaigns", "campaign_links")


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
