"""Blocks of campaigns: rates by bucket, the largest campaigns, links, and those of one campaign."""

from collections.abc import Callable, Sequence

from daybreak.insight.campaigns import Campaign, CampaignDay, CampaignDetails, CampaignFigures, LinkFigures
from daybreak.insight.periods import Period
from daybreak.web.dashboard.formatting import format_number
from daybreak.web.dashboard.insight.blocks import (
    Block,
    Column,
    Figure,
    Row,
    campaign_label,
    share,
    sum_of,
    value_label,
)
from daybreak.web.dashboard.insight.selection import BucketFinder, Selection


def campaign_total(figures: CampaignFigures, period: Period) -> CampaignDay:
    """Return the sums of the campaigns sent in a period."""
    return sum_of(CampaignDay, [sums for day, sums in figures.items() if day in period])


def rate_figures(sums: Campaign | CampaignDay, before: CampaignDay | None) -> list[Figure]:
    """Return reply and stop rate, compared with those of other campaigns."""
    return [
        Figure("Reply rate", share(sums.replied, sums.recipients),
               share(before.replied, before.recipients) if before else None, is_share=True, block="rates"),
        Figure("Stop rate", share(sums.stopped, sums.recipients),
               share(before.stopped, before.recipients) if before else None, is_share=True),
    ]  # fmt: skip


def rates_block(figures: CampaignFigures, selection: Selection) -> Block:
    """Return reply and stop rates by bucket of sending."""
    finder = BucketFinder.of(selection.period)
    by_bucket = [sum_of(CampaignDay, days) for days in finder.group(figures)]
    total = sum_of(CampaignDay, by_bucket)
    rows = tuple(Row(bucket, _rates(sums)) for bucket, sums in zip(finder.buckets, by_bucket, strict=True))
    return Block(
        name="rates",
        title="Reply and stop rates",
        note=f"Share of recipients, by UTC {selection.period.unit} of sending",
        columns=(
            Column("Period", "text"), Column("Campaigns"), Column("Recipients"), Column("Replied"),
            Column("Reply rate", "share"), Column("Stopped"), Column("Stop rate", "share"),
        ),
        rows=rows if total.campaigns else (),
        total=_rates(total),
        series=(3, 5),
        line=True,
        legend="Period average",
    )  # fmt: skip


def campaigns_block(campaigns: Sequence[Campaign], count: int, url: Callable[[str], str], *, limit: int) -> Block:
    """Return the campaigns with the most recipients. `count` is the number of all in the period."""
    shown = campaigns[:limit]
    return Block(
        name="campaigns",
        title="Campaigns",
        note=f"Largest {len(shown)} of {format_number(count)}" if count > len(shown) else "Largest first",
        columns=(
            Column("Campaign", "text"), Column("Sent", "date", "sent"), Column("Channel", "text"),
            Column("Recipients", order="recipients"), Column("Reply rate", "share", "replies"),
            Column("Stop rate", "share", "stops"), Column("Clicks", order="clicks"),
            Column("Segments", order="segments"),
        ),
        rows=tuple(
            Row(campaign_label(each.name), (
                each.sent_at.date(), value_label(each.channel), each.recipients,
                share(each.replied, each.recipients), share(each.stopped, each.recipients),
                each.clicks if each.links else None, each.segments,
            ), url(each.campaign_id))
            for each in shown
        ),
    )  # fmt: skip


def links_block(links: LinkFigures, *, limit: int) -> Block:
    """Return the links with the most clicks. The rest is one row."""
    shown, hidden = links.largest[:limit], links.largest[limit:]
    rows = [
        Row(each.url, (
            value_label(each.link_type), each.campaigns, each.recipients, each.clicks,
            share(each.clicks, each.recipients),
        ))
        for each in shown
    ]  # fmt: skip
    rest = len(hidden) + links.other_links
    clicks = sum(each.clicks for each in shown)
    if rest:
        other = links.other_clicks + sum(each.clicks for each in hidden)
        clicks += other
        rows.append(Row(f"{format_number(rest)} more links", ("", None, None, other, None), is_rest=True))
    return Block(
        name="links",
        title="Links",
        note="In campaigns sent in this period",
        columns=(
            Column("Link", "text"), Column("Type", "text"), Column("Campaigns"), Column("Recipients"),
            Column("Clicks"), Column("Clicks per recipient", "share"),
        ),
        rows=tuple(rows),
        total=("", None, None, clicks, None) if rows else None,
    )  # fmt: skip


def compared_figures(details: CampaignDetails, average: CampaignDay) -> list[Figure]:
    """Return the figures of a campaign. Their `previous` is the average campaign, from sums of several."""
    campaign, others = details.campaign, average.campaigns

    def mean(total: int) -> float | None:
        return round(total / others) if others else None

    return [
        Figure("Recipients", campaign.recipients, mean(average.recipients)),
        Figure("Replies", campaign.responses, mean(average.responses)),
        *rate_figures(campaign, average),
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
            value_label(link.link_type), link.clicks, share(link.clicks, campaign.clicks),
            share(link.clicks, campaign.recipients),
        ))
        for link in details.links
    ]  # fmt: skip
    if hidden:
        other = campaign.clicks - shown
        cells = ("", other, share(other, campaign.clicks), None)
        rows.append(Row(f"{format_number(hidden)} more links", cells, is_rest=True))
    return Block(
        name="links",
        title="Links",
        columns=(
            Column("Link", "text"), Column("Type", "text"), Column("Clicks"), Column("Share", "share"),
            Column("Clicks per recipient", "share"),
        ),
        rows=tuple(rows),
        total=("", campaign.clicks, share(campaign.clicks, campaign.clicks), None) if rows else None,
    )  # fmt: skip


def _rates(sums: CampaignDay) -> tuple[int | float | None, ...]:
    return (
        sums.campaigns, sums.recipients, sums.replied, share(sums.replied, sums.recipients), sums.stopped,
        share(sums.stopped, sums.recipients),
    )  # fmt: skip
