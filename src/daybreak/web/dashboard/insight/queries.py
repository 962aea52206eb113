"""Figures of an account, from its published files or from the cache."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import FileStoreError
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.ports.files import FileStore
from daybreak.ports.state import Stores
from daybreak.snapshots.freshness import freshness
from daybreak.web.dashboard.files.queries import files_unavailable
from daybreak.web.dashboard.files.readers import cell_text, csv_rows, json_records
from daybreak.web.dashboard.insight.cache import DigestCache, FigureCache
from daybreak.web.dashboard.insight.figures import (
    CampaignFigures,
    CommunityFigures,
    MemberFigures,
    Usage,
    campaign_figures,
    community_figures,
    member_figures,
    usage_figures,
)
from daybreak.web.dashboard.page_request import PageRequest

T = TypeVar("T")
Compute = Callable[[Sequence[str], Iterable[Sequence[str]]], T]

_MAXIMUM_BYTES = 256 << 20
MAXIMUM_MEMBERS = 300_000


@dataclass(frozen=True, slots=True)
class AccountFigures:
    """Figures of one account."""

    usage: Usage
    campaigns: list[CampaignFigures]
    members: MemberFigures
    communities: list[CommunityFigures]


async def load_published_entries(page: PageRequest) -> tuple[Snapshot | None, dict[str, ManifestEntry]]:
    """Return the published snapshot and the account's manifest entries in it by resource name."""

    def read(stores: Stores) -> tuple[Snapshot | None, dict[str, ManifestEntry]]:
        snapshot = freshness(stores.snapshots, page.now, page.dashboard.publish_at).snapshot
        if snapshot is None:
            return None, {}
        entries = stores.snapshots.manifest(snapshot.snapshot_id, page.client_id)
        return snapshot, {entry.resource: entry for entry in entries}

    return await page.dashboard.services.state.aread(read)


async def load_figures(cache: FigureCache, page: PageRequest, entries: dict[str, ManifestEntry]) -> AccountFigures:
    """Compute the figures that the cache does not have. Raises Unavailable if a file cannot be read."""

    async def load(figures: DigestCache[T], resource: str, compute: Compute[T]) -> T:
        entry, files = entries[resource], page.dashboard.services.files
        stored = entry.formats.get("csv") or next(iter(entry.formats.values()))
        task = partial(_read_figures, files, entry, compute)
        return await figures.get(stored.content_sha256, lambda: page.dashboard.run_file_task(task))

    count_members = partial(member_figures, total_rows=entries["members"].rows, maximum_rows=MAXIMUM_MEMBERS)
    try:
        return AccountFigures(
            usage=await load(cache.usage, "outbound_message_type_usage", usage_figures),
            campaigns=await load(cache.campaigns, "campaigns", campaign_figures),
            members=await load(cache.members, "members", count_members),
            communities=await load(cache.communities, "communities", community_figures),
        )
    except (FileStoreError, csv.Error, ValueError):
        raise files_unavailable() from None


def _read_figures(store: FileStore, entry: ManifestEntry, compute: Compute[T]) -> T:
    columns = resource_named(entry.resource).column_names
    if "csv" in entry.formats:
        rows: Iterable[Sequence[str]] = csv_rows(store, entry.formats["csv"].key, maximum_bytes=_MAXIMUM_BYTES)
        return compute(columns, (row for row in rows if len(row) == len(columns)))
    records = json_records(store, entry.formats["json"].key, maximum_bytes=_MAXIMUM_BYTES)
    return compute(columns, ([cell_text(record.get(name)) or "" for name in columns] for record in records))
