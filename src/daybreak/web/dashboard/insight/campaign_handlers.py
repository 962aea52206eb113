"""Handlers of the list of campaigns, and of one campaign and its CSV files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response

from daybreak.domain.errors import NotFound
from daybreak.domain.identity import is_id
from daybreak.insight.campaigns import (
    ASCENDING,
    ORDERS,
    PAGE_LENGTH,
    CampaignQuery,
    campaign_details,
    campaign_figures,
    campaign_page,
)
from daybreak.insight.figures import CampaignDay, CampaignDetails, CampaignFigures
from daybreak.insight.periods import RANGES
from daybreak.web.dashboard.file_names import download_name
from daybreak.web.dashboard.files.queries import no_files
from daybreak.web.dashboard.formatting import format_number
from daybreak.web.dashboard.freshness.view import load_status
from daybreak.web.dashboard.insight.blocks import (
    Block,
    Column,
    Figure,
    Row,
    TableSort,
    campaign_label,
    channel_label,
    link_type_label,
    share,
)
from daybreak.web.dashboard.insight.cache import FigureCache
from daybreak.web.dashboard.insight.campaign_blocks import campaign_total, campaigns_block, rate_figures
from daybreak.web.dashboard.insight.handlers import block_response
from daybreak.web.dashboard.insight.queries import CAMPAIGN_FILES, PublishedFigures, load_published_figures
from daybreak.web.dashboard.insight.selection import FirstDays, Selection, select
from daybreak.web.dashboard.insight.view import period_text, selection_context, table_sort
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, parse_integer
from daybreak.web.dashboard.paging import slice_at

_MAXIMUM_TEXT_LENGTH = 200
_MAXIMUM_PAGE = 100_000
ORDER_LABELS: Mapping[str, str] = {
    "sent": "Newest",
    "recipients": "Recipients",
    "replies": "Reply rate",
    "stops": "Stop rate",
    "clicks": "Clicks",
    "segments": "Segments",
}


@dataclass(frozen=True, slots=True)
class _Requested:
    """The published files of a request, the sums of its campaigns, and its selection."""

    files: PublishedFigures
    sums: CampaignFigures
    selection: Selection


async def list_campaigns(cache: FigureCache, page: PageRequest) -> Response:
    """List the campaigns of a range, 50 on a page, with search and order."""
    found = await _load(cache, page)
    parameters = page.request.query_params
    text = parameters.get("q", "").strip()[:_MAXIMUM_TEXT_LENGTH]
    order = parameters.get("order", "sent") if parameters.get("order") in ORDERS else "sent"
    number = parse_integer(parameters.get("page"), minimum=1, maximum=_MAXIMUM_PAGE, default=1)
    wanted = CampaignQuery(found.selection.period, text, order)
    shown = await found.files.get(campaign_page, CAMPAIGN_FILES, wanted, number=number)

    def campaign_url(campaign_id: str) -> str:
        return page.url(f"insight/campaigns/{campaign_id}", **found.selection.query)

    def list_url(**changes: str) -> str:
        query = {**found.selection.query, "q": text, "order": "" if order == "sent" else order, **changes}
        return page.url("insight/campaigns", **query)

    context: dict[str, object] = {
        **selection_context(page, found.selection, "insight/campaigns"),
        "block": campaigns_block(shown.campaigns, len(shown.campaigns), campaign_url, limit=PAGE_LENGTH),
        "slice": slice_at(
            (),
            shown.first,
            len(shown.campaigns),
            total=shown.total,
            length=PAGE_LENGTH,
            url=lambda other: list_url(page=other),
        ),
        "orders": {**ORDER_LABELS, **({} if order in ORDER_LABELS else {order: _ascending_label(order)})},
        "sort": TableSort(order, lambda block, index: block.columns[index].order, lambda name: list_url(order=name)),
        "order": order,
        "text": text,
        "ranges": RANGES,
        "back_url": page.url("insight", **found.selection.query),
        "status": await load_status(page),
    }
    return render_page(page, "insight/campaigns.html", context)


async def show_campaign(cache: FigureCache, page: PageRequest) -> Response:
    """Show one campaign: its figures compared with the average of a range, message, usage and links."""
    found = await _load(cache, page)
    details = await _load_details(page, found)
    path = f"insight/campaigns/{details.campaign.campaign_id}"
    context: dict[str, object] = {
        "details": details,
        "title": campaign_label(details.campaign.name),
        "figures": compared_figures(details, campaign_total(found.sums, found.selection.period)),
        "facts": campaign_facts(details),
        "usage": campaign_usage_block(details),
        "links": campaign_links_block(details),
        "average_text": f"Average: campaigns from {period_text(found.selection)}",
        "sort": table_sort(page, found.selection, path),
        "block_url": lambda name: page.url(f"{path}/{name}.csv"),
        "back_url": page.url("insight/campaigns", **found.selection.query),
        "as_of": found.files.snapshot.as_of,
        "status": await load_status(page),
    }
    return render_page(page, "insight/campaign.html", context)


async def download_campaign_block(cache: FigureCache, page: PageRequest) -> Response:
    """Download usage or links of one campaign as CSV, and record it in the audit trail."""
    found = await _load(cache, page)
    details = await _load_details(page, found)
    blocks = {block.name: block for block in (campaign_usage_block(details), campaign_links_block(details))}
    name = page.request.path_params["block"]
    if name not in blocks:
        raise NotFound("No such table.", code="unknown_file")
    snapshot = found.files.snapshot
    file_name = download_name(page, f"campaign-{details.campaign.campaign_id}-{name}", snapshot.as_of, ".csv")
    return await block_response(page, blocks[name], file_name, {"snapshot_id": snapshot.snapshot_id})


async def _load(cache: FigureCache, page: PageRequest) -> _Requested:
    """Read the published files. Raises Forbidden or NotFound."""
    files = await load_published_figures(cache, page)
    if files is None:
        raise no_files()
    sums, as_of = await files.get(campaign_figures, CAMPAIGN_FILES), files.snapshot.as_of
    first_day = min(sums, default=as_of.date())
    return _Requested(files, sums, select(page.request.query_params, as_of, FirstDays(first_day, first_day)))


async def _load_details(page: PageRequest, found: _Requested) -> CampaignDetails:
    """Read the campaign in the path. Raises NotFound."""
    campaign_id = page.request.path_params["campaign_id"]
    details = await found.files.get(campaign_details, CAMPAIGN_FILES, campaign_id) if is_id(campaign_id) else None
    if details is None:
        raise NotFound("No such campaign in the published files.", code="not_found")
    return details


def _ascending_label(order: str) -> str:
    name = order.removesuffix(ASCENDING)
    return "Oldest" if name == "sent" else f"{ORDER_LABELS[name]}, lowest first"


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
