"""Freshness of the published files, read from the state database."""

from __future__ import annotations

from daybreak.domain.snapshot import Freshness
from daybreak.snapshots.freshness import freshness
from daybreak.web.dashboard.freshness.view import FreshnessView, freshness_view
from daybreak.web.dashboard.page_request import PageRequest


async def load_freshness(page: PageRequest) -> Freshness:
    """Read the freshness of the published files."""
    publish_at = page.dashboard.publish_at
    return await page.dashboard.services.state.aread(lambda stores: freshness(stores.snapshots, page.now, publish_at))


async def load_status(page: PageRequest) -> FreshnessView:
    """Return the content of the status strip."""
    return freshness_view(await load_freshness(page), page.now)
