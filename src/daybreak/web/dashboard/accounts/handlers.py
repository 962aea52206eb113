"""Handlers of the account list, the account switcher and the command palette."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from daybreak.catalogue.resources import RESOURCES
from daybreak.web.dashboard.account_selection import account_views, matching_accounts, switcher_context
from daybreak.web.dashboard.formatting import format_name
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import slice_of
from daybreak.web.dashboard.rendering import is_partial, render_template

_MAXIMUM_QUERY_LENGTH = 100
_PAGE_LENGTH = 60
_COMMAND_ACCOUNTS = 12


async def list_accounts(page: PageRequest) -> Response:
    """Show the accounts that match the search, as a page or as a partial for the switcher."""
    query = _query(page)
    section = page.request.query_params.get("section", "files")
    if is_partial(page.request):
        context = {**switcher_context(page, page.client_id, query, section), "as_grid": False}
        return render_template(page.dashboard, page.request, "accounts/list.html", context)
    matches = matching_accounts(page, query)
    search = {"q": query, "section": section}
    shown = slice_of(page, matches, _PAGE_LENGTH, lambda number: page.url("accounts", **search, page=number))
    context = {
        "switcher_accounts": account_views(page, shown.items, page.client_id, section),
        "more_accounts": 0,
        "slice": shown,
        "query": query,
        "as_grid": True,
        "section": section,
    }
    return render_page(page, "accounts/page.html", context)


async def list_commands(page: PageRequest) -> Response:
    """Return the accounts and files that match the search of the command palette, as JSON."""
    query = _query(page)
    words = query.casefold().split()
    files = [
        {
            "kind": "File",
            "label": resource.title,
            "detail": resource.name,
            "url": page.url(f"files/{resource.name}/preview"),
        }
        for resource in RESOURCES
        if all(word in f"{resource.title} {resource.name} file".casefold() for word in words)
    ]
    accounts = [
        {
            "kind": "Account",
            "label": format_name(entry.account.name),
            "detail": entry.account.phone_number,
            "url": f"{page.dashboard.root}/dashboard/{entry.account.client_id}/files",
        }
        for entry in matching_accounts(page, query)[:_COMMAND_ACCOUNTS]
    ]
    return JSONResponse({"items": [*files, *accounts]}, headers={"Cache-Control": "no-store"})


def _query(page: PageRequest) -> str:
    return page.request.query_params.get("q", "")[:_MAXIMUM_QUERY_LENGTH]
