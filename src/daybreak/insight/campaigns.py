"""Campaigns of an account and their links, without test campaigns.

Each function reads the files of campaigns and campaign links.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from daybreak.insight.periods import Period
from daybreak.insight.published_tables import PublishedTables

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

_WITH_LINKS = f"campaigns LEFT JOIN ({LINKS_BY_CAMPAIGN}) USING (CAMPAIGN_ID)"
_BY_DAY = f"""
    SELECT
        CAST(SENT_AT AS DATE),
        COUNT(*),
        SUM(RECIPIENT_COUNT), SUM(RESPONSE_COUNT), SUM(REPLIED_COUNT), SUM(STOP_COUNT), SUM(SEGMENT_COUNT),
        SUM(UNIT_COUNT),
        coalesce(SUM(RECIPIENT_COUNT) FILTER (links IS NOT NULL), 0),
        coalesce(SUM(clicks), 0)
    FROM {_WITH_LINKS}
    WHERE NOT TEST_CAMPAIGN AND SENT_AT IS NOT NULL
    GROUP BY 1
"""
_CAMPAIGNS = f"""
    SELECT {CAMPAIGN_COLUMNS}
    FROM {_WITH_LINKS}
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

PAGE_LENGTH = 50
MAXIMUM_TEXT_LENGTH = 10_000

_ORDERED = {
    "sent": "SENT_AT",
    "recipients": "RECIPIENT_COUNT",
    "replies": "REPLIED_COUNT / nullif(RECIPIENT_COUNT, 0)",
    "stops": "STOP_COUNT / nullif(RECIPIENT_COUNT, 0)",
    "clicks": "coalesce(clicks, 0)",
    "segments": "SEGMENT_COUNT",
}
ASCENDING = "-up"
ORDERS = {
    name + suffix: f"{value} {direction} NULLS LAST"
    for name, value in _ORDERED.items()
    for suffix, direction in (("", "DESC"), (ASCENDING, "ASC"))
}
"""SQL of each order by its name in URLs. Orders are descending without ASCENDING at the end of the name."""

_MATCHING = """
    WHERE NOT TEST_CAMPAIGN AND SENT_AT BETWEEN $start AND $last
        AND (contains(lower(CAMPAIGN_NAME), lower($text)) OR contains(lower(TEXT), lower($text)))
"""
_COUNT = f"SELECT COUNT(*) FROM campaigns {_MATCHING}"
_PAGE = f"""
    SELECT {CAMPAIGN_COLUMNS}
    FROM {_WITH_LINKS}
    {_MATCHING}
    ORDER BY {{order}}, SENT_AT DESC, CAMPAIGN_ID
    LIMIT $limit OFFSET $start_row
"""
_DETAILS = f"""
    SELECT {CAMPAIGN_COLUMNS}, left(TEXT, {MAXIMUM_TEXT_LENGTH}), left(MEDIA_URL, {MAXIMUM_URL_LENGTH}), USAGE_CHANNEL,
        TEST_CAMPAIGN, IS_SCHEDULED, IS_FILTERED
    FROM {_WITH_LINKS}
    WHERE CAMPAIGN_ID = $campaign_id AND SENT_AT IS NOT NULL
"""
_LINKS_OF_CAMPAIGN = f"""
    SELECT left(LINK_URL, {MAXIMUM_URL_LENGTH}), LINK_TYPE, 1, RECIPIENT_COUNT, HIT_COUNT
    FROM campaign_links
    WHERE CAMPAIGN_ID = $campaign_id
    ORDER BY HIT_COUNT DESC, LINK_URL
    LIMIT {MAXIMUM_LINKS}
"""


@dataclass(frozen=True, slots=True)
class CampaignDay:
    """Sums of the campaigns sent on one day, without tests. `linked_recipients` received a campaign with links."""

    campaigns: int = 0
    recipients: int = 0
    responses: int = 0
    replied: int = 0
    stopped: int = 0
    segments: int = 0
    units: int = 0
    linked_recipients: int = 0
    clicks: int = 0


@dataclass(frozen=True, slots=True)
class Campaign:
    """One campaign. `links` is the number of its links; `clicks` is how often they were opened."""

    campaign_id: str
    name: str
    channel: str
    sent_at: datetime
    recipients: int
    responses: int
    replied: int
    stopped: int
    segments: int
    units: int
    links: int
    clicks: int


@dataclass(frozen=True, slots=True)
class Link:
    """One link, summed over the campaigns that contain it."""

    url: str
    link_type: str
    campaigns: int
    recipients: int
    clicks: int


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """The links with the most clicks, and number and clicks of the rest."""

    largest: tuple[Link, ...]
    other_links: int
    other_clicks: int


@dataclass(frozen=True, slots=True)
class CampaignDetails:
    """One campaign with its message, settings and links, those with the most clicks first."""

    campaign: Campaign
    text: str
    media_url: str
    usage_channel: str
    is_test: bool
    is_scheduled: bool
    is_filtered: bool
    links: tuple[Link, ...]


CampaignFigures = Mapping[date, CampaignDay]
"""Sums of campaigns by day of sending."""


def campaign_figures(tables: PublishedTables) -> CampaignFigures:
    """Return the sums by day of sending. Raises FileStoreError."""
    ((campaign_rows, link_rows),) = tables.rows(_COUNTS)
    tables.check_rows("campaigns", campaign_rows)
    tables.check_rows("campaign_links", link_rows)
    return {row[0]: CampaignDay(*map(int, row[1:])) for row in tables.rows(_BY_DAY)}


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


@dataclass(frozen=True, slots=True)
class CampaignPage:
    """Some of the matching campaigns. `first` counts from 0."""

    total: int
    first: int
    campaigns: tuple[Campaign, ...]


def campaign_page(
    tables: PublishedTables, period: Period, text: str = "", order: str = "sent", *, number: int
) -> CampaignPage:
    """Return a page of 50 campaigns whose name or message contains a text, in an order of ORDERS. A number beyond the
    end is the last page. Raises FileStoreError.
    """
    parameters = {**period.parameters, "text": text}
    ((total,),) = tables.rows(_COUNT, parameters)
    first = (min(number, max(1, -(-total // PAGE_LENGTH))) - 1) * PAGE_LENGTH
    page = {**parameters, "limit": PAGE_LENGTH, "start_row": first}
    rows = tables.rows(_PAGE.format(order=ORDERS[order]), page)
    return CampaignPage(total, first, tuple(campaign_of(row) for row in rows))


def campaign_details(tables: PublishedTables, campaign_id: str) -> CampaignDetails | None:
    """Return one campaign, tests included, or None if there is none of that id. Raises FileStoreError."""
    parameters = {"campaign_id": campaign_id}
    for *columns, text, media_url, usage_channel, is_test, is_scheduled, is_filtered in tables.rows(
        _DETAILS, parameters
    ):
        links = tuple(Link(*row[:2], *map(int, row[2:])) for row in tables.rows(_LINKS_OF_CAMPAIGN, parameters))
        return CampaignDetails(
            campaign_of(columns), text, media_url, usage_channel, is_test, is_scheduled, is_filtered, links
        )
    return None
