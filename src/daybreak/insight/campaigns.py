"""Campaigns of an account and their links, without test campaigns.

Each function reads the files of campaigns and campaign links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daybreak.domain.snapshot import ManifestEntry
from daybreak.insight.figures import Campaign, CampaignDay, CampaignFigures, Link, LinkFigures
from daybreak.insight.periods import Period
from daybreak.insight.published_tables import PublishedTables, check_rows

MAXIMUM_LINKS = 500
_MAXIMUM_NAME_LENGTH = 200
MAXIMUM_URL_LENGTH = 2000

LINKS_BY_CAMPAIGN = """
    SELECT CAMPAIGN_ID, COUNT(*) AS links, SUM(HIT_COUNT) AS clicks
    FROM campaign_links
    GROUP BY CAMPAIGN_ID
"""
CAMPAIGN_COLUMNS = f"""
    CAMPAIGN_ID, left(CAMPAIGN_NAME, {_MAXIMUM_NAME_LENGTH}), CHANNEL, SENT_AT, RECIPIENT_COUNT, RESPONSE_COUNT,
    REPLIED_COUNT, STOP_COUNT, SEGMENT_COUNT, UNIT_COUNT, coalesce(links, 0), coalesce(clicks, 0)
"""
"""Columns that `campaign_of` reads, from campaigns and LINKS_BY_CAMPAIGN."""

_BY_DAY = f"""
    SELECT
        CAST(SENT_AT AS DATE),
        COUNT(*),
        SUM(RECIPIENT_COUNT), SUM(RESPONSE_COUNT), SUM(REPLIED_COUNT), SUM(STOP_COUNT), SUM(SEGMENT_COUNT),
        SUM(UNIT_COUNT),
        coalesce(SUM(RECIPIENT_COUNT) FILTER (links IS NOT NULL), 0),
        coalesce(SUM(clicks), 0)
    FROM campaigns
    LEFT JOIN ({LINKS_BY_CAMPAIGN}) USING (CAMPAIGN_ID)
    WHERE NOT TEST_CAMPAIGN AND SENT_AT IS NOT NULL
    GROUP BY 1
"""
_CAMPAIGNS = f"""
    SELECT {CAMPAIGN_COLUMNS}
    FROM campaigns
    LEFT JOIN ({LINKS_BY_CAMPAIGN}) USING (CAMPAIGN_ID)
    WHERE NOT TEST_CAMPAIGN AND SENT_AT BETWEEN $start AND $last
    ORDER BY RECIPIENT_COUNT DESC, SENT_AT DESC, CAMPAIGN_ID
    LIMIT $limit
"""
_LINKS = f"""
    SELECT url, LINK_TYPE, campaigns, recipients, clicks, COUNT(*) OVER (), SUM(clicks) OVER ()
    FROM (
        SELECT
            left(LINK_URL, {MAXIMUM_URL_LENGTH}) AS url, LINK_TYPE, COUNT(*) AS campaigns,
            SUM(l.RECIPIENT_COUNT) AS recipients, SUM(HIT_COUNT) AS clicks
        FROM campaign_links AS l
        JOIN campaigns AS c USING (CAMPAIGN_ID)
        WHERE NOT TEST_CAMPAIGN AND SENT_AT BETWEEN $start AND $last
        GROUP BY url, LINK_TYPE
    )
    ORDER BY clicks DESC, recipients DESC, url
    LIMIT {MAXIMUM_LINKS}
"""
_COUNTS = "SELECT (SELECT COUNT(*) FROM campaigns), (SELECT COUNT(*) FROM campaign_links)"


def campaign_figures(
    tables: PublishedTables, campaigns: ManifestEntry, campaign_links: ManifestEntry
) -> CampaignFigures:
    """Return the sums by day of sending. Raises FileStoreError."""
    ((campaign_rows, link_rows),) = tables.rows(_COUNTS)
    check_rows(campaigns, campaign_rows)
    check_rows(campaign_links, link_rows)
    return CampaignFigures({row[0]: CampaignDay(*map(int, row[1:])) for row in tables.rows(_BY_DAY)})


def largest_campaigns(tables: PublishedTables, period: Period, *, limit: int) -> tuple[Campaign, ...]:
    """Return the campaigns of this period with the most recipients. Raises FileStoreError."""
    return tuple(campaign_of(row) for row in tables.rows(_CAMPAIGNS, {**period.parameters, "limit": limit}))


def campaign_of(row: Sequence[Any]) -> Campaign:
    """Return the campaign of a row of CAMPAIGN_COLUMNS."""
    campaign_id, name, channel, sent_at, *counts = row
    return Campaign(campaign_id, name, channel, sent_at, *map(int, counts))


def link_figures(tables: PublishedTables, period: Period) -> LinkFigures:
    """Return the links of the campaigns of this period. Raises FileStoreError."""
    rows = tables.rows(_LINKS, period.parameters)
    if not rows:
        return LinkFigures((), 0, 0)
    largest = tuple(Link(url, kind, *map(int, sums)) for url, kind, *sums, _, _ in rows)
    links, clicks = rows[0][-2:]
    return LinkFigures(largest, links - len(largest), int(clicks) - sum(link.clicks for link in largest))
