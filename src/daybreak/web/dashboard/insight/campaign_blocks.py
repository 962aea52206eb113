"""Blocks of campaigns: rates by bucket, the largest campaigns, and links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from daybreak.insight.figures import Campaign, CampaignDay, CampaignFigures, LinkFigures
from daybreak.insight.periods import Period
from daybreak.web.dashboard.formatting import format_number
from daybreak.web.dashboard.insight.blocks import (
    Block,
    Column,
    Figure,
    Row,
    campaign_label,
    channel_label,
    link_type_label,
    share,
)
from daybreak.web.dashboard.insight.selection import BucketFinder, Selection


def campaign_total(figures: CampaignFigures, period: Period) -> CampaignDay:
    """Return the sums of the campaigns sent in a period."""
    return _sum([sums for day, sums in figures.items() if day in period])


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
    days: list[list[CampaignDay]] = [[] for _ in finder.buckets]
    for day, sums in figures.items():
        at = finder.find(day)
        if at is not None:
            days[at].append(sums)
    by_bucket = [_sum(found) for found in days]
    total = _sum(by_bucket)
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
                each.sent_at.date(), channel_label(each.channel), each.recipients,
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
            link_type_label(each.link_type), each.campaigns, each.recipients, each.clicks,
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


def _rates(sums: CampaignDay) -> tuple[int | float | None, ...]:
    return (
        sums.campaigns, sums.recipients, sums.replied, share(sums.replied, sums.recipients), sums.stopped,
        share(sums.stopped, sums.recipients),
    )  # fmt: skip


def _sum(days: Sequence[CampaignDay]) -> CampaignDay:
    names = CampaignDay.__slots__
    return CampaignDay(*(sum(getattr(day, name) for day in days) for name in names))
