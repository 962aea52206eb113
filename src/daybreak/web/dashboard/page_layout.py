"""Layout of signed-in pages: navigation, account switcher with its search, and flash message."""

from collections.abc import Mapping
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import Response

from daybreak.web.dashboard.browser_session import clear_cookie, cookie_value
from daybreak.web.dashboard.forms import csrf_field, login_of
from daybreak.web.dashboard.freshness.view import FreshnessView
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import FLASH, FLASH_MESSAGES, SUCCESS, PageOutcome, render_template

_PAGES = ("files", "insight", "activity", "connect")
_SETTINGS = ("tokens", "webhooks", "notifications", "display", "security")


def render_page(
    page: PageRequest, template: str, context: Mapping[str, object], outcome: PageOutcome = SUCCESS
) -> Response:
    """Render a page inside the layout.

    The variable `status`, if it is set, is shown as a strip above the page. `fresh` is the panel of the page. With
    `reloads`, the page is loaded again after a second, unless the user has opened a dialog.
    """
    dashboard, client_id = page.dashboard, page.tab_account_id
    section = str(context.get("section", page.policy.section))

    def account_url(path: str, **query: str) -> str:
        return f"{dashboard.root}/dashboard/{client_id}/{path}" + (f"?{urlencode(query)}" if query else "")

    layout: dict[str, object] = {
        "seat": page.seat,
        "account": page.granted.account if page.granted is not None else None,
        "account_count": page.account_count,
        "section": section,
        "account_url": account_url,
        "operator_url": page.operator_url,
        "current": lambda name: Markup(' aria-current="page"') if name == section else Markup(""),
        "csrf_field": lambda: csrf_field(page, login_of(page.session)),
        "uses_webhooks": dashboard.services.settings.events.webhooks,
        "is_synced": dashboard.services.settings.directory.is_synced,
        "fresh": None,
        "status": None,
        "reloads": False,
        # Replaces the URL of a page that answers a POST, so that reload and back do not send the form again.
        "history_url": dashboard.root + page.form_path() if page.request.method == "POST" else "",
    }
    flash = FLASH_MESSAGES.get(cookie_value(page.request, FLASH, secure=dashboard.secure) or "")
    if outcome.flash is None:
        layout["flash"] = flash
    variables = {**layout, **context}
    # The panel or the strip of the page sets the word before the title and the icon of the browser tab.
    shown = variables["fresh"] or variables["status"]
    variables |= {"alert": "", "favicon": "favicon.svg"}
    if isinstance(shown, FreshnessView):
        variables |= {"alert": shown.alert, "favicon": shown.favicon}
    response = render_template(page, template, variables, outcome)
    if flash is not None:
        clear_cookie(page, response, FLASH)
    return response


def account_path(section: str) -> str:
    """Return the path of a section on an account, that of Files for a section that accounts do not have."""
    if section in _SETTINGS:
        return f"settings/{section}"
    return section if section in _PAGES else "files"
