"""Handler of the Insight page."""

from __future__ import annotations

from starlette.responses import Response

from daybreak.access.authorization import require
from daybreak.domain.errors import Forbidden
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.freshness.queries import load_status
from daybreak.web.dashboard.insight.cache import FigureCache
from daybreak.web.dashboard.insight.queries import load_figures, load_published_entries
from daybreak.web.dashboard.insight.view import DEFAULT_PERIOD, PERIODS, Period, insight_context
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest

_NOT_PUBLISHED = EmptyState("No files yet", "Charts appear after the first publication.")


async def show_insight(cache: FigureCache, page: PageRequest) -> Response:
    """Show the figures of the published snapshot for the period that the query names."""
    try:
        require(page.principal, "see_files", page.client_id)
    except Forbidden as error:
        return await _empty_page(page, error_state(error))
    snapshot, entries = await load_published_entries(page)
    if snapshot is None or not entries:
        return await _empty_page(page, _NOT_PUBLISHED)
    figures = await load_figures(cache, page, entries)
    requested = page.request.query_params.get("days", DEFAULT_PERIOD)
    days = requested if requested in PERIODS else DEFAULT_PERIOD
    context: dict[str, object] = {
        **insight_context(figures, Period.ending(snapshot.as_of.date(), days)),
        "status": await load_status(page),
        "empty_state": None,
        "as_of": snapshot.as_of,
        "periods": [
            {"label": label, "url": page.url(f"insight?days={value}"), "selected": value == days}
            for value, label in PERIODS.items()
        ],
        "uses_charts": True,
    }
    return render_page(page, "insight/page.html", "insight", context)


async def _empty_page(page: PageRequest, empty_state: EmptyState) -> Response:
    context: dict[str, object] = {"empty_state": empty_state, "as_of": None, "status": await load_status(page)}
    return render_page(page, "insight/page.html", "insight", context)
