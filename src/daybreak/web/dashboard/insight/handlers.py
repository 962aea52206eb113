"""Handlers of the Insight page, of the list of campaigns, of one campaign, and of their CSV files."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from starlette.responses import Response

from daybreak.domain.errors import NotFound
from daybreak.domain.identity import is_id
from daybreak.insight.campaigns import (
    ASCENDING,
    ORDERS,
    PAGE_LENGTH,
    CampaignDetails,
    CampaignFigures,
    campaign_details,
    campaign_figures,
    campaign_page,
    largest_campaigns,
    link_figures,
)
from daybreak.insight.periods import RANGES
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.file_names import download_headers, download_name
from daybreak.web.dashboard.files.queries import no_files
from daybreak.web.dashboard.freshness.view import load_status
from daybreak.web.dashboard.insight.blocks import Block, TableSort, block_csv, campaign_label, value_label
from daybreak.web.dashboard.insight.campaign_blocks import (
    campaign_links_block,
    campaign_total,
    campaign_usage_block,
    campaigns_block,
    compared_figures,
)
from daybreak.web.dashboard.insight.charts import draw_chart
from daybreak.web.dashboard.insight.queries import (
    CAMPAIGN_FILES,
    MAXIMUM_CAMPAIGNS,
    FigureCache,
    PublishedFigures,
    load_published_figures,
)
from daybreak.web.dashboard.insight.selection import FirstDays, Selection, select
from daybreak.web.dashboard.insight.view import (
    InsightView,
    comparison_text,
    insight_view,
    period_text,
    table_sort,
)
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import requested_page, slice_at
from daybreak.web.dashboard.spreadsheets import CSV_MEDIA_TYPE

_NOT_PUBLISHED = EmptyState("No files yet", "Charts appear after the first publication.")
_SKELETON_SECONDS = 0.3
_RELOAD_SECONDS = 4.0
_MAXIMUM_TEXT_LENGTH = 200
ORDER_LABELS: Mapping[str, str] = {
    "sent": "Newest",
    "recipients": "Recipients",
    "replies": "Reply rate",
    "stops": "Stop rate",
    "clicks": "Clicks",
    "segments": "Segments",
}


async def show_empty_page(page: PageRequest, empty_state: EmptyState | None = None) -> Response:
    """Show why there are no figures. Without a reason, show a skeleton, which reloads itself."""
    context: dict[str, object] = {
        "empty_state": empty_state,
        "reloads": empty_state is None,
        "as_of": None,
        "status": await load_status(page),
    }
    return render_page(page, "insight/page.html", context)


async def show_when_counted(
    cache: FigureCache,
    show: Callable[[FigureCache, PageRequest], Awaitable[Response]],
    page: PageRequest,
    wait: Callable[[PageRequest], Awaitable[Response]] = show_empty_page,
) -> Response:
    """Show a page. If its figures take more than 300 ms, show a skeleton of it, which reloads itself.

    The computation continues meanwhile. The reload uses its result, and waits longer. `wait` shows another page in
    between, with the variable `reloads`.
    """
    seconds = _RELOAD_SECONDS if cache.is_computing_for(page.queue_account) else _SKELETON_SECONDS
    try:
        return await asyncio.wait_for(show(cache, page), seconds)
    except TimeoutError:
        return await wait(page)


async def block_response(page: PageRequest, block: Block, file_name: str, details: Mapping[str, object]) -> Response:
    """Return a block as a CSV file, and record the download in the audit trail. Raises RateLimited."""
    content = block_csv(block)
    await page.record("file.fetched", {"file": file_name, **details}, sent_bytes=len(content))
    return Response(content, headers=download_headers(file_name), media_type=CSV_MEDIA_TYPE)


async def show_insight(cache: FigureCache, page: PageRequest) -> Response:
    """Show the figures of the published snapshot for the range that the query names."""
    if page.refusal is not None:
        return await show_empty_page(page, error_state(page.refusal))
    files = await load_published_figures(cache, page)
    if files is None:
        return await show_empty_page(page, _NOT_PUBLISHED)
    selection, view = await _load(files, complete=False)
    context: dict[str, object] = {
        "selection": selection,
        "ranges": RANGES,
        "period_text": period_text(selection),
        "comparison_text": comparison_text(selection),
        "page_url": page.url,
        "block_url": lambda name: page.url(f"insight/{name}.csv", **{**selection.query, "sort": ""}),
        "sort": table_sort(page, selection, "insight"),
        "view": view,
        "draw_chart": draw_chart,
        "status": await load_status(page),
        "empty_state": None,
        "as_of": files.snapshot.as_of,
    }
    return render_page(page, "insight/page.html", context)


async def download_block(cache: FigureCache, page: PageRequest) -> Response:
    """Download the table of one block as CSV, with all of its rows, and record it in the audit trail."""
    files = await load_published_figures(cache, page)
    if files is None:
        raise no_files()
    selection, view = await _load(files, complete=True)
    name = _requested_block(page, view.blocks)
    file_name = download_name(page, f"insight-{name}", selection.period.last, ".csv")
    details = {"snapshot_id": files.snapshot.snapshot_id, "range": selection.range_name}
    return await block_response(page, view.blocks[name], file_name, details)


async def _load(files: PublishedFigures, *, complete: bool) -> tuple[Selection, InsightView]:
    """Return the selection of a request, and its figures. Raises FileStoreError, Unavailable."""
    page, as_of = files.page, files.snapshot.as_of
    account = await files.of_account()
    selection = select(page.request.query_params, as_of, account.first_days(as_of.date()))
    campaigns = await files.get(largest_campaigns, CAMPAIGN_FILES, selection.period, limit=MAXIMUM_CAMPAIGNS)
    links = await files.get(link_figures, CAMPAIGN_FILES, selection.period)
    url = partial(_campaign_url, page, selection)
    return selection, insight_view(account, campaigns, links, selection, url, complete=complete)


def _campaign_url(page: PageRequest, selection: Selection, campaign_id: str) -> str:
    return page.url(f"insight/campaigns/{campaign_id}", **selection.query)


def _requested_block(page: PageRequest, names: Collection[str]) -> str:
    name: str = page.request.path_params["block"]
    if name not in names:
        raise NotFound("No such table.", code="unknown_file")
    return name


async def list_campaigns(cache: FigureCache, page: PageRequest) -> Response:
    """List the campaigns of a range, 50 on a page, with search and order."""
    files, _, selection = await _load_campaigns(cache, page)
    parameters = page.request.query_params
    text = parameters.get("q", "").strip()[:_MAXIMUM_TEXT_LENGTH]
    order = parameters.get("order", "sent") if parameters.get("order") in ORDERS else "sent"
    wanted = selection.period, text, order
    shown = await files.get(campaign_page, CAMPAIGN_FILES, *wanted, number=requested_page(page))

    def list_url(**changes: str) -> str:
        query = {**selection.query, "q": text, "order": "" if order == "sent" else order, **changes}
        return page.url("insight/campaigns", **query)

    context: dict[str, object] = {
        "selection": selection,
        "period_text": period_text(selection),
        "block": campaigns_block(
            shown.campaigns, len(shown.campaigns), partial(_campaign_url, page, selection), limit=PAGE_LENGTH
        ),
        "slice": slice_at(shown.campaigns, shown.first, shown.total, PAGE_LENGTH, lambda other: list_url(page=other)),
        "orders": {**ORDER_LABELS, **({} if order in ORDER_LABELS else {order: _ascending_label(order)})},
        "sort": TableSort(order, lambda block, index: block.columns[index].order, lambda name: list_url(order=name)),
        "order": order,
        "text": text,
        "ranges": RANGES,
        "back_url": page.url("insight", **selection.query),
        "status": await load_status(page),
    }
    return render_page(page, "insight/campaigns.html", context)


async def show_campaign(cache: FigureCache, page: PageRequest) -> Response:
    """Show one campaign: its figures compared with the average of a range, message, usage and links."""
    files, sums, selection = await _load_campaigns(cache, page)
    details = await _load_details(files)
    path = f"insight/campaigns/{details.campaign.campaign_id}"
    context: dict[str, object] = {
        "details": details,
        "title": campaign_label(details.campaign.name),
        "figures": compared_figures(details, campaign_total(sums, selection.period)),
        "value_label": value_label,
        "usage": campaign_usage_block(details),
        "links": campaign_links_block(details),
        "average_text": f"Average: campaigns from {period_text(selection)}",
        "sort": table_sort(page, selection, path),
        "block_url": lambda name: page.url(f"{path}/{name}.csv"),
        "back_url": page.url("insight/campaigns", **selection.query),
        "as_of": files.snapshot.as_of,
        "status": await load_status(page),
    }
    return render_page(page, "insight/campaign.html", context)


async def download_campaign_block(cache: FigureCache, page: PageRequest) -> Response:
    """Download usage or links of one campaign as CSV, and record it in the audit trail."""
    files, _, _ = await _load_campaigns(cache, page)
    details, snapshot = await _load_details(files), files.snapshot
    blocks = {block.name: block for block in (campaign_usage_block(details), campaign_links_block(details))}
    name = _requested_block(page, blocks)
    file_name = download_name(page, f"campaign-{details.campaign.campaign_id}-{name}", snapshot.as_of, ".csv")
    return await block_response(page, blocks[name], file_name, {"snapshot_id": snapshot.snapshot_id})


async def _load_campaigns(cache: FigureCache, page: PageRequest) -> tuple[PublishedFigures, CampaignFigures, Selection]:
    """Return the published files, the sums of the campaigns, and the selection. Raises Forbidden or NotFound."""
    files = await load_published_figures(cache, page)
    if files is None:
        raise no_files()
    sums, as_of = await files.get(campaign_figures, CAMPAIGN_FILES), files.snapshot.as_of
    first_day = min(sums, default=as_of.date())
    return files, sums, select(page.request.query_params, as_of, FirstDays(first_day, first_day))


async def _load_details(files: PublishedFigures) -> CampaignDetails:
    """Read the campaign in the path. Raises NotFound."""
    campaign_id = files.page.request.path_params["campaign_id"]
    details = await files.get(campaign_details, CAMPAIGN_FILES, campaign_id) if is_id(campaign_id) else None
    if details is None:
        raise NotFound("No such campaign in the published files.", code="not_found")
    return details


def _ascending_label(order: str) -> str:
    name = order.removesuffix(ASCENDING)
    return "Oldest" if name == "sent" else f"{ORDER_LABELS[name]}, lowest first"
