"""Pages of the campaigns of a period, and details of one campaign."""

from __future__ import annotations

from dataclasses import dataclass, field

from daybreak.insight.campaigns import (
    CAMPAIGN_COLUMNS,
    LINKS_BY_CAMPAIGN,
    MAXIMUM_LINKS,
    MAXIMUM_URL_LENGTH,
    campaign_of,
)
from daybreak.insight.figures import Campaign, CampaignDetails, Link
from daybreak.insight.periods import Period
from daybreak.insight.published_tables import PublishedTables

PAGE_LENGTH = 50
MAXIMUM_TEXT_LENGTH = 10_000

ORDERS = {
    "sent": "SENT_AT DESC",
    "recipients": "RECIPIENT_COUNT DESC",
    "replies": "REPLIED_COUNT / nullif(RECIPIENT_COUNT, 0) DESC NULLS LAST",
    "stops": "STOP_COUNT / nullif(RECIPIENT_COUNT, 0) DESC NULLS LAST",
    "clicks": "coalesce(clicks, 0) DESC",
}
"""SQL of each order by its name in URLs."""

_MATCHING = """
    WHERE NOT TEST_CAMPAIGN AND SENT_AT BETWEEN $start AND $last
        AND (contains(lower(CAMPAIGN_NAME), lower($text)) OR contains(lower(TEXT), lower($text)))
"""
_COUNT = f"SELECT COUNT(*) FROM campaigns {_MATCHING}"
_PAGE = f"""
    SELECT {CAMPAIGN_COLUMNS}
    FROM campaigns
    LEFT JOIN ({LINKS_BY_CAMPAIGN}) USING (CAMPAIGN_ID)
    {_MATCHING}
    ORDER BY {{order}}, SENT_AT DESC, CAMPAIGN_ID
    LIMIT $limit OFFSET $start_row
"""
_DETAILS = f"""
    SELECT {CAMPAIGN_COLUMNS}, left(TEXT, {MAXIMUM_TEXT_LENGTH}), left(MEDIA_URL, {MAXIMUM_URL_LENGTH}), USAGE_CHANNEL,
        TEST_CAMPAIGN, IS_SCHEDULED, IS_FILTERED
    FROM campaigns
    LEFT JOIN ({LINKS_BY_CAMPAIGN}) USING (CAMPAIGN_ID)
    WHERE CAMPAIGN_ID = $campaign_id AND SENT_AT IS NOT NULL
"""
_LINKS = f"""
    SELECT left(LINK_URL, {MAXIMUM_URL_LENGTH}), LINK_TYPE, 1, RECIPIENT_COUNT, HIT_COUNT
    FROM campaign_links
    WHERE CAMPAIGN_ID = $campaign_id
    ORDER BY HIT_COUNT DESC, LINK_URL
    LIMIT {MAXIMUM_LINKS}
"""


@dataclass(frozen=True, slots=True)
class CampaignQuery:
    """Campaigns whose name or message contains a text, in an order of ORDERS."""

    period: Period
    text: str = ""
    order: str = "sent"


@dataclass(frozen=True, slots=True)
class CampaignPage:
    """Some of the matching campaigns. `first` counts from 0."""

    total: int
    first: int = 0
    campaigns: tuple[Campaign, ...] = field(default=())


def campaign_page(tables: PublishedTables, query: CampaignQuery, *, number: int) -> CampaignPage:
    """Return a page of 50 campaigns. A number beyond the end is the last page. Raises FileStoreError."""
    parameters = {**query.period.parameters, "text": query.text}
    ((total,),) = tables.rows(_COUNT, parameters)
    first = (min(number, max(1, -(-total // PAGE_LENGTH))) - 1) * PAGE_LENGTH
    page = {**parameters, "limit": PAGE_LENGTH, "start_row": first}
    rows = tables.rows(_PAGE.format(order=ORDERS[query.order]), page)
    return CampaignPage(total, first, tuple(campaign_of(row) for row in rows))


def campaign_details(tables: PublishedTables, campaign_id: str) -> CampaignDetails | None:
    """Return one campaign, tests included, or None if there is none of that id. Raises FileStoreError."""
    parameters = {"campaign_id": campaign_id}
    for *columns, text, media_url, usage_channel, is_test, is_scheduled, is_filtered in tables.rows(
        _DETAILS, parameters
    ):
        links = tuple(Link(*row[:2], *map(int, row[2:])) for row in tables.rows(_LINKS, parameters))
        return CampaignDetails(
            campaign_of(columns), text, media_url, usage_channel, is_test, is_scheduled, is_filtered, links
        )
    return None
