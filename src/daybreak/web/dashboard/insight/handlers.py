"""Handlers of the Insight page and of its CSV files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from daybreak.domain.errors import NotFound
from daybreak.insight.campaigns import largest_campaigns, link_figures
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.file_names import download_headers, download_name
from daybreak.web.dashboard.files.queries import no_files
from daybreak.web.dashboard.freshness.view import load_status
from daybreak.web.dashboard.insight.blocks import Block, block_csv
from daybreak.web.dashboard.insight.cache import FigureCache
from daybreak.web.dashboard.insight.queries import (
    CAMPAIGN_FILES,
    MAXIMUM_CAMPAIGNS,
    PublishedFigures,
    load_published_figures,
)
from daybreak.web.dashboard.insight.selection import Selection, select
from daybreak.web.dashboard.insight.view import BLOCK_NAMES, InsightView, insight_view, selection_context, table_sort
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.spreadsheets import CSV_MEDIA_TYPE

_NOT_PUBLISHED = EmptyState("No files yet", "Charts appear after the first publication.")
_SKELETON_SECONDS = 0.3
_RELOAD_SECONDS = 4.0


async def show_empty_page(
    page: PageRequest, outcome: PageOutcome = SUCCESS, empty_state: EmptyState | None = None
) -> Response:
    """Show why there are no figures. Without a reason, show a skeleton."""
    context: dict[str, object] = {"empty_state": empty_state, "as_of": None, "status": await load_status(page)}
    return render_page(page, "insight/page.html", context, outcome)


async def show_when_counted(
    cache: FigureCache,
    show: Callable[[FigureCache, PageRequest], Awaitable[Response]],
    page: PageRequest,
    wait: Callable[[PageRequest, PageOutcome], Awaitable[Response]] = show_empty_page,
) -> Response:
    """Show a page. If its figures take more than 300 ms, show a skeleton of it, which reloads itself.

    The computation continues meanwhile. The reload uses its result, and waits longer. `wait` shows another page in
    between.
    """
    seconds = _RELOAD_SECONDS if cache.is_computing_for(page.queue_account) else _SKELETON_SECONDS
    try:
        return await asyncio.wait_for(show(cache, page), seconds)
    except TimeoutError:
        return await wait(page, PageOutcome(headers={"Refresh": "1"}))


async def block_response(page: PageRequest, block: Block, file_name: str, details: Mapping[str, object]) -> Response:
    """Return a block as a CSV file, and record the download in the audit trail. Raises RateLimited."""
    content = block_csv(block)
    if page.request.method == "GET":
        await page.record("file.fetched", {"file": file_name, **details}, sent_bytes=len(content))
    return Response(content, headers=download_headers(file_name), media_type=CSV_MEDIA_TYPE)


async def show_insight(cache: FigureCache, page: PageRequest) -> Response:
    """Show the figures of the published snapshot for the range that the query names."""
    if page.refusal is not None:
        return await show_empty_page(page, empty_state=error_state(page.refusal))
    files = await load_published_figures(cache, page)
    if files is None:
        return await show_empty_page(page, empty_state=_NOT_PUBLISHED)
    selection, view = await _load(files, complete=False)
    context: dict[str, object] = {
        **selection_context(page, selection, "insight"),
        "sort": table_sort(page, selection, "insight"),
        "view": view,
        "campaigns_url": page.url("insight/campaigns", **selection.query),
        "status": await load_status(page),
        "empty_state": None,
        "as_of": files.snapshot.as_of,
    }
    return render_page(page, "insight/page.html", context)


async def download_block(cache: FigureCache, page: PageRequest) -> Response:
    """Download the table of one block as CSV, with all of its rows, and record it in the audit trail."""
    name = page.request.path_params["block"]
    if name not in BLOCK_NAMES:
        raise NotFound("No such table.", code="unknown_file")
    files = await load_published_figures(cache, page)
    if files is None:
        raise no_files()
    selection, view = await _load(files, complete=True)
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

    def campaign_url(campaign_id: str) -> str:
        return page.url(f"insight/campaigns/{campaign_id}", **selection.query)

    return selection, insight_view(account, campaigns, links, selection, campaign_url, complete=complete)
