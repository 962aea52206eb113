"""The Insight page without figures: before the first publication, and while rows are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.responses import Response

from daybreak.web.dashboard.error_pages import EmptyState
from daybreak.web.dashboard.freshness.queries import load_status
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest

_COUNTING = EmptyState("Counting rows", "Insight reads new files once. This page opens when the figures are ready.")
_WAIT_SECONDS = 4.0
_REFRESH_SECONDS = 2


async def show_when_counted(
    show: Callable[[PageRequest], Awaitable[Response]],
    page: PageRequest,
    wait: Callable[[PageRequest, PageOutcome], Awaitable[Response]] | None = None,
) -> Response:
    """Show a page. If its figures take long, show that rows are being counted; that page reloads itself.

    The computation continues meanwhile, and a later request uses its result. `wait` shows another page in between.
    """
    try:
        return await asyncio.wait_for(show(page), _WAIT_SECONDS)
    except TimeoutError:
        outcome = PageOutcome(headers={"Refresh": str(_REFRESH_SECONDS)})
        return await (wait(page, outcome) if wait is not None else show_empty_page(page, _COUNTING, outcome))


async def show_empty_page(page: PageRequest, empty_state: EmptyState, outcome: PageOutcome = SUCCESS) -> Response:
    """Show why there are no figures."""
    context: dict[str, object] = {"empty_state": empty_state, "as_of": None, "status": await load_status(page)}
    return render_page(page, "insight/page.html", context, outcome)
