"""Template variables of the pages of campaigns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from daybreak.insight.campaign_list import PAGE_LENGTH, CampaignPage
from daybreak.insight.figures import CampaignDay, CampaignDetails
from daybreak.web.dashboard.formatting import format_number
from daybreak.web.dashboard.insight.blocks import Block, Column, Row, share
from daybreak.web.dashboard.insight.campaign_blocks import campaigns_block
from daybreak.web.dashboard.insight.labels import campaign_label, channel_label, link_type_label
from daybreak.web.dashboard.insight.summary import Figure

ORDER_LABELS: Mapping[str, str] = {
    "sent": "Newest",
    "recipients": "Recipients",
    "replies": "Reply rate",
    "stops": "Stop rate",
    "clicks": "Clicks",
}


def campaign_table(found: CampaignPage, url: Callable[[str], str]) -> Block:
    """Return the table of a page of campaigns."""
    return campaigns_block(found.campaigns, len(found.campaigns), url, limit=PAGE_LENGTH)


def campaign_figures(details: CampaignDetails, average: CampaignDay) -> list[Figure]:
    """Return the figures of a campaign. Their `previous` is the average campaign, from sums of several."""
    campaign, others = details.campaign, average.campaigns

    def mean(total: int) -> float | None:
        return round(total / others) if others else None

    return [
        Figure("Recipients", campaign.recipients, mean(average.recipients)),
        Figure("Replies", campaign.responses, mean(average.responses)),
        Figure(
            "Reply rate",
            share(campaign.replied, campaign.recipients),
            share(average.replied, average.recipients),
            is_share=True,
        ),
        Figure(
            "Stop rate",
            share(campaign.stopped, campaign.recipients),
            share(average.stopped, average.recipients),
            is_share=True,
        ),
        Figure("Clicks", campaign.clicks if details.links else None, mean(average.clicks)),
        Figure(
            "Clicks per recipient",
            share(campaign.clicks, campaign.recipients) if details.links else None,
            share(average.clicks, average.linked_recipients),
            is_share=True,
        ),
        Figure("Segments", campaign.segments, mean(average.segments)),
        Figure("Units", campaign.units, mean(average.units)),
    ]


def campaign_facts(details: CampaignDetails) -> list[tuple[str, str]]:
    """Return the settings of a campaign by label."""
    audience = "Part of the Members" if details.is_filtered else "All Members"
    return [
        ("Channel", channel_label(details.campaign.channel)),
        ("Billed as", channel_label(details.usage_channel)),
        ("Audience", audience),
        ("Sending", "Scheduled" if details.is_scheduled else "Immediate"),
        *([("Media", details.media_url)] if details.media_url else []),
    ]


def campaign_usage_block(details: CampaignDetails) -> Block:
    """Return messages and replies of a campaign, in total and per recipient."""
    campaign = details.campaign
    counts = (
        ("Recipients", campaign.recipients), ("Segments sent", campaign.segments), ("Units billed", campaign.units),
        ("Replies", campaign.responses), ("Members who replied", campaign.replied),
        ("Members who stopped", campaign.stopped),
    )  # fmt: skip
    return Block(
        name="usage",
        title="Message usage",
        note="",
        columns=(Column("Figure", "text"), Column("Total"), Column("Per recipient", "ratio")),
        rows=tuple(Row(label, (count, share(count, campaign.recipients))) for label, count in counts),
    )


def campaign_links_block(details: CampaignDetails) -> Block:
    """Return the links of a campaign, those with the most clicks first."""
    campaign = details.campaign
    hidden = campaign.links - len(details.links)
    shown = sum(link.clicks for link in details.links)
    rows = [
        Row(link.url, (
            link_type_label(link.link_type), link.clicks, share(link.clicks, campaign.clicks),
            share(link.clicks, campaign.recipients),
        ))
        for link in details.links
    ]  # fmt: skip
    if hidden:
        other = campaign.clicks - shown
        rows.append(Row(f"{format_number(hidden)} more links", ("", other, share(other, campaign.clicks), None)))
    return Block(
        name="links",
        title="Links",
        note="",
        columns=(
            Column("Link", "text"), Column("Type", "text"), Column("Clicks"), Column("Share", "share"),
            Column("Clicks per recipient", "share"),
        ),
        rows=tuple(rows),
        total=("", campaign.clicks, share(campaign.clicks, campaign.clicks), None) if rows else None,
    )  # fmt: skip


def campaign_title(details: CampaignDetails) -> str:
    """Return the name of a campaign."""
    return campaign_label(details.campaign.name)
