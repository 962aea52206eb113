"""Responses of the dashboard: rendered templates and redirects."""

import gzip
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.responses import HTMLResponse, RedirectResponse, Response

from daybreak.web.dashboard.browser_session import set_cookie
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.formatting import format_time
from daybreak.web.dashboard.outcome import FLASH_MESSAGES, SUCCESS, PageOutcome
from daybreak.web.http.negotiation import accepts_gzip
from daybreak.web.request_state import record_refusal

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_MINIMUM_GZIP_BYTES = 1400
FLASH = "flash"
"""Cookie with the name of the message that a redirect leaves for the next page."""
_FLASH_SECONDS = 300
# Sent by partials.js.
_PAGE_HEADER = "Daybreak-Page"


def render_template(
    page: DashboardRequest, template: str, context: Mapping[str, object], outcome: PageOutcome = SUCCESS
) -> Response:
    """Render a template to a response that browsers do not store. Compress it if the browser accepts gzip."""
    dashboard, request, now = page.dashboard, page.request, page.services.clock()
    text = dashboard.templates.get_template(template).render(
        {
            "asset": dashboard.assets.url,
            "root": dashboard.root,
            "now": now,
            "publish_time": format_time(datetime.combine(now.date(), dashboard.publish_at, UTC)),
            "flash": outcome.flash,
            "errors": outcome.errors,
            "history_url": dashboard.root + page.local_path if request.method == "POST" else "",
            **context,
        }
    )
    if outcome.code:
        record_refusal(request.scope, outcome.code)
    body = text.encode()
    headers = {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cache-Control": "no-store",
        "Vary": "Accept-Encoding, Cookie, Daybreak-Page",
        **outcome.headers,
    }
    if len(body) >= _MINIMUM_GZIP_BYTES and accepts_gzip(request.headers.getlist("accept-encoding")):
        body = gzip.compress(body, 6, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return HTMLResponse(body, outcome.status, headers)


def redirect(page: DashboardRequest, path: str) -> Response:
    """Redirect to a path of the dashboard (303), or have the script do so if the request is for a part of a page.

    The query parameter `done` names a message for the next page. It is sent as a cookie instead, which that page
    clears, so that the message does not return when the page is reloaded or bookmarked.
    """
    dashboard = page.dashboard
    parts = urlsplit(dashboard.root + path)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "done"]
    done = dict(parse_qsl(parts.query)).get("done", "")
    url = parts._replace(query=urlencode(query)).geturl() if done else dashboard.root + path
    response: Response
    if is_partial(page):
        response = Response(headers={"Daybreak-Location": url, "Cache-Control": "no-store"})
    else:
        response = RedirectResponse(url, 303, {"Cache-Control": "no-store"})
    if done in FLASH_MESSAGES:
        set_cookie(page, response, FLASH, done, seconds=_FLASH_SECONDS)
    return response


def is_partial(page: DashboardRequest) -> bool:
    """Return whether the script requests a part of a page."""
    return _PAGE_HEADER in page.request.headers


def reload_page() -> Response:
    """Have the script load the page again whose part it requests."""
    return Response(status_code=205, headers={"Cache-Control": "no-store"})


def page_of_partial(page: DashboardRequest) -> str:
    """Return the path and query of the page that requests a part of itself, without the path part of `base_url`."""
    return page.request.headers[_PAGE_HEADER].removeprefix(page.dashboard.root)
