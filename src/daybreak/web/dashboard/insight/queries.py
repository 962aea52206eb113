"""Figures of an account, from its published files or from the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Generic, TypeVar

from daybreak.domain.errors import FileStoreError
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.insight import campaigns as campaign_queries
from daybreak.insight.campaigns import CampaignPage, CampaignQuery, campaign_details, campaign_page
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
from daybreak.insight.members import community_figures, growth_figures, member_figures, usage_figures
from daybreak.insight.periods import Period
from daybreak.insight.published_tables import Interruption, PublishedTables
from daybreak.snapshots.freshness import freshness
from daybreak.state.stores import Stores
from daybreak.web.dashboard.files.queries import files_unavailable
from daybreak.web.dashboard.insight.cache import FigureCache, ValueCache
from daybreak.web.dashboard.insight.selection import FirstDays
from daybreak.web.dashboard.page_request import PageRequest

T = TypeVar("T")

MAXIMUM_CAMPAIGNS = 1000
_CAMPAIGN_FILES = ("campaigns", "campaign_links")


@dataclass(frozen=True, slots=True)
class AccountFigures:
    """Figures of one account for every day."""

    usage: UsageFigures
    members: MemberFigures
    growth: GrowthFigures
    communities: CommunityFigures
    campaigns: CampaignFigures

    def first_days(self, default: date) -> FirstDays:
        """Return the first days with data."""
        messages = {day for day, _, _ in self.usage.counts}.union(self.campaigns.by_day)
        return FirstDays(min(messages, default=default), min(self.growth.by_day, default=default))


@dataclass(frozen=True, slots=True)
class PeriodFigures:
    """The largest campaigns and links of a period."""

    campaigns: tuple[Campaign, ...]
    links: LinkFigures


async def load_published_entries(page: PageRequest) -> tuple[Snapshot | None, dict[str, ManifestEntry]]:
    """Return the published snapshot and the account's manifest entries in it by resource name."""

    def read(stores: Stores) -> tuple[Snapshot | None, dict[str, ManifestEntry]]:
        snapshot = freshness(stores.snapshots, page.now, page.dashboard.publish_at).snapshot
        if snapshot is None:
            return None, {}
        entries = stores.snapshots.manifest(snapshot.snapshot_id, page.client_id)
        return snapshot, {entry.resource: entry for entry in entries}

    return await page.dashboard.services.state.aread(read)


async def load_account_figures(
    cache: FigureCache, page: PageRequest, entries: Mapping[str, ManifestEntry]
) -> AccountFigures:
    """Compute the figures that the cache does not have. Raises Unavailable if a file cannot be read."""
    files = _Files(cache, page, entries)

    def of_file(
        values: ValueCache[T], resource: str, compute: Callable[[PublishedTables, ManifestEntry], T]
    ) -> _Wanted[T]:
        return _Wanted(values, (resource,), lambda tables: compute(tables, entries[resource]))

    # The computations that are not cached start together, so that the next request finds all of them under way.
    usage, members, growth, communities, campaigns = await asyncio.gather(
        files.load(of_file(cache.usage, "outbound_message_type_usage", usage_figures)),
        files.load(of_file(cache.members, "members", member_figures)),
        files.load(of_file(cache.growth, "member_state_changes", growth_figures)),
        files.load(of_file(cache.communities, "communities", community_figures)),
        load_campaign_figures(cache, page, entries),
    )
    return AccountFigures(usage, members, growth, communities, campaigns)


async def load_campaign_figures(
    cache: FigureCache, page: PageRequest, entries: Mapping[str, ManifestEntry]
) -> CampaignFigures:
    """Return the sums of campaigns by day. Raises Unavailable if a file cannot be read."""

    def compute(tables: PublishedTables) -> CampaignFigures:
        return campaign_queries.campaign_figures(tables, *(entries[name] for name in _CAMPAIGN_FILES))

    return await _Files(cache, page, entries).load(_Wanted(cache.campaigns, _CAMPAIGN_FILES, compute))


async def load_campaign_page(
    cache: FigureCache, page: PageRequest, entries: Mapping[str, ManifestEntry], query: CampaignQuery, number: int
) -> CampaignPage:
    """Return a page of campaigns. Raises Unavailable if a file cannot be read."""

    def compute(tables: PublishedTables) -> CampaignPage:
        return campaign_page(tables, query, number=number)

    return await _Files(cache, page, entries).load(_Wanted(cache.pages, _CAMPAIGN_FILES, compute), query, number)


async def load_campaign(
    cache: FigureCache, page: PageRequest, entries: Mapping[str, ManifestEntry], campaign_id: str
) -> CampaignDetails | None:
    """Return one campaign, None if there is none of that id. Raises Unavailable if a file cannot be read."""

    def compute(tables: PublishedTables) -> CampaignDetails | None:
        return campaign_details(tables, campaign_id)

    return await _Files(cache, page, entries).load(_Wanted(cache.details, _CAMPAIGN_FILES, compute), campaign_id)


async def load_period_figures(
    cache: FigureCache, page: PageRequest, entries: Mapping[str, ManifestEntry], period: Period
) -> PeriodFigures:
    """Compute the figures of a period that the cache does not have. Raises Unavailable if a file cannot be read."""
    files = _Files(cache, page, entries)

    def largest(tables: PublishedTables) -> tuple[Campaign, ...]:
        return campaign_queries.largest_campaigns(tables, period, limit=MAXIMUM_CAMPAIGNS)

    def links(tables: PublishedTables) -> LinkFigures:
        return campaign_queries.link_figures(tables, period)

    return PeriodFigures(
        campaigns=await files.load(_Wanted(cache.largest_campaigns, _CAMPAIGN_FILES, largest), period),
        links=await files.load(_Wanted(cache.links, _CAMPAIGN_FILES, links), period),
    )


@dataclass(frozen=True, slots=True)
class _Wanted(Generic[T]):
    """Figures, the resources that they are computed from, and their cache."""

    values: ValueCache[T]
    resources: tuple[str, ...]
    compute: Callable[[PublishedTables], T]


@dataclass(frozen=True, slots=True)
class _Files:
    cache: FigureCache
    page: PageRequest
    entries: Mapping[str, ManifestEntry]

    async def load(self, wanted: _Wanted[T], *parameters: Hashable) -> T:
        """Return figures from the cache, or compute them in a thread. Raises Unavailable."""
        found = [self.entries[name] for name in wanted.resources]
        store = self.page.dashboard.services.files

        def task(interruption: Interruption) -> T:
            with PublishedTables.open(store, found, interruption) as tables:
                return wanted.compute(tables)

        try:
            key = (*(_content(entry) for entry in found), *parameters)
            return await wanted.values.get(key, lambda: self.cache.run(self.page.queue_account, task))
        except FileStoreError:
            raise files_unavailable() from None


def _content(entry: ManifestEntry) -> str:
    """Return the digest of a file's content. The row count of a file is part of its content."""
    return next(iter(entry.formats.values())).content_sha256
