"""Layout of signed-in pages: navigation, account switcher and flash message."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import Response

from daybreak.web.dashboard.account_selection import default_account_id, switcher_urls
from daybreak.web.dashboard.forms import csrf_field
from daybreak.web.dashboard.freshness.view import FreshnessView
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import clear_flash, flash_of, render_template


def render_page(
    page: PageRequest,
    template: str,
    section: str,
    context: Mapping[str, object],
    outcome: PageOutcome = SUCCESS,
) -> Response:
    """Render a page inside the layout. `section` names the navigation link to mark as current.

    The variable `status`, if it is set, is shown as a strip above the page. `fresh` is the panel of the page.
    """
    dashboard, client_id = page.dashboard, tab_account_id(page)
    account = next((entry.account for entry in page.accounts if entry.account.client_id == client_id), None)

    def account_url(path: str) -> str:
        return f"{dashboard.root}/dashboard/{client_id}/{path}"

    layout: dict[str, object] = {
        "seat": page.seat,
        "account": account,
        "account_count": len(page.accounts),
        "section": section,
        "home_url": account_url("files") if account is not None else f"{dashboard.root}/dashboard/",
        "account_url": account_url,
        "operator_url": lambda path: dashboard.root + operator_path(page, path),
        "current": lambda name: Markup(' aria-current="page"') if name == section else Markup(""),
        "csrf_field": lambda: csrf_field(dashboard, page.session.sid),
        "uses_webhooks": dashboard.services.settings.events.webhooks,
        "fresh": None,
        "status": None,
        **switcher_urls(page, client_id, "", section),
    }
    flash = flash_of(dashboard, page.request)
    if outcome.flash is None:
        layout["flash"] = flash
    variables = {**layout, **context}
    variables["alert"], variables["favicon"] = _tab_state(variables["fresh"] or variables["status"])
    response = render_template(dashboard, page.request, template, variables, outcome)
    if flash is not None:
        clear_flash(dashboard, response)
    return response


def _tab_state(shown: object) -> tuple[str, str]:
    """Return the word before the title and the icon of the browser tab, from the panel or the strip of the page."""
    return (shown.alert, shown.favicon) if isinstance(shown, FreshnessView) else ("", "favicon.svg")


def tab_account_id(page: PageRequest) -> str:
    """Return the account that this browser tab is on.

    On operator pages, which have no account in the path, the query parameter `account` names it.
    """
    if page.client_id:
        return page.client_id
    requested = page.request.query_params.get("account", "")
    if any(entry.account.client_id == requested for entry in page.accounts):
        return requested
    return default_account_id(page.resolved, page.accounts, page.dashboard.second_factor_policy) or ""


def operator_path(page: PageRequest, path: str, /, **query: str) -> str:
    """Return the path of an operator page that keeps the tab's account."""
    client_id = tab_account_id(page)
    if client_id:
        query["account"] = client_id
    return f"/dashboard/operator/{path}" + (f"?{urlencode(query)}" if query else "")
