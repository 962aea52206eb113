"""Layout of signed-in pages: navigation, account switcher and flash message."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import Response

from daybreak.web.dashboard.account_selection import switcher_urls
from daybreak.web.dashboard.forms import csrf_field
from daybreak.web.dashboard.freshness.view import FreshnessView
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import clear_flash, flash_of, render_template


def render_page(
    page: PageRequest,
    template: str,
    context: Mapping[str, object],
    outcome: PageOutcome = SUCCESS,
) -> Response:
    """Render a page inside the layout.

    The variable `status`, if it is set, is shown as a strip above the page. `fresh` is the panel of the page.
    """
    dashboard, client_id = page.dashboard, page.tab_account_id
    section = str(context.get("section", page.policy.section))
    account = next((entry.account for entry in page.accounts if entry.account.client_id == client_id), None)

    def account_url(path: str, **query: str) -> str:
        return f"{dashboard.root}/dashboard/{client_id}/{path}" + (f"?{urlencode(query)}" if query else "")

    layout: dict[str, object] = {
        "seat": page.seat,
        "account": account,
        "account_count": len(page.accounts),
        "section": section,
        "home_url": account_url("files") if account is not None else f"{dashboard.root}/dashboard/",
        "account_url": account_url,
        "operator_url": page.operator_url,
        "current": lambda name: Markup(' aria-current="page"') if name == section else Markup(""),
        "csrf_field": lambda: csrf_field(dashboard, page.session.sid),
        "uses_webhooks": dashboard.services.settings.events.webhooks,
        "fresh": None,
        "status": None,
        # Replaces the URL of a page that answers a POST, so that reload and back do not send the form again.
        "history_url": dashboard.root + page.form_path() if page.request.method == "POST" else "",
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
