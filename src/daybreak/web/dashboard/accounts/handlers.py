"""Handler of the account list."""

from __future__ import annotations

from starlette.responses import Response

from daybreak.web.dashboard.account_selection import switcher_context
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import is_partial, render_template

_MAXIMUM_QUERY_LENGTH = 100
_PAGE_LENGTH = 500


async def list_accounts(page: PageRequest) -> Response:
    """Show the accounts that match the search, as a page or as a partial for the switcher."""
    query = page.request.query_params.get("q", "")[:_MAXIMUM_QUERY_LENGTH]
    section = page.request.query_params.get("section", "files")
    if is_partial(page.request):
        context = switcher_context(page, page.client_id, query, section)
        return render_template(page.dashboard, page.request, "accounts/list.html", context)
    context = switcher_context(page, page.client_id, query, section, limit=_PAGE_LENGTH)
    return render_page(page, "accounts/page.html", section, {**context, "query": query, "as_grid": True})
