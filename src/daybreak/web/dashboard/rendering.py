"""Responses of the dashboard: rendered templates and redirects, with the messages that report an outcome."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from starlette.responses import HTMLResponse, RedirectResponse, Response

from daybreak.domain.errors import DaybreakError, InvalidRequest, RateLimited, Unauthenticated, Unavailable
from daybreak.web.dashboard.browser_session import raise_if_ended, set_cookie
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.formatting import format_duration, format_time
from daybreak.web.http.negotiation import accepts_gzip
from daybreak.web.http.problems import problem_headers, status_of
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


@dataclass(frozen=True, slots=True)
class Flash:
    """A message at the top of a page. `kind` is `good`, `warn` or `bad`."""

    kind: str
    title: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class PageOutcome:
    """Status code, extra headers, flash message, error messages by form field, and the error code for the log."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    flash: Flash | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    code: str = ""


SUCCESS = PageOutcome()
FLASH_MESSAGES = msgspec.toml.decode((Path(__file__).parent / "messages.toml").read_bytes(), type=dict[str, Flash])
"""Messages that a redirect can leave for the page it leads to, by name. See `redirect`."""


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


def rejected(error: DaybreakError, field_name: str) -> PageOutcome:
    """Return the outcome of a form that an error rejected.

    A wrong value is reported at the field `field_name`, anything else at the top of the page. Raises SignInRequired if
    the session has ended.
    """
    raise_if_ended(error)
    status, headers = status_of(error), error_headers(error)
    if isinstance(error, InvalidRequest):
        message = "\n".join(fault.detail for fault in error.faults) or error.message
        return PageOutcome(status, headers, errors={field_name: message}, code=error.code)
    if isinstance(error, Unauthenticated):
        return PageOutcome(status, headers, errors={field_name: error.message}, code=error.code)
    return PageOutcome(status, headers, flash=_error_flash(error), code=error.code)


def invalid_field(field_name: str, message: str) -> PageOutcome:
    return PageOutcome(400, errors={field_name: message})


def error_headers(error: DaybreakError) -> dict[str, str]:
    """Return an error's headers without `WWW-Authenticate`, which would open the browser's own password dialog."""
    return {name: value for name, value in problem_headers(error).items() if name != "WWW-Authenticate"}


def _error_flash(error: DaybreakError) -> Flash:
    if isinstance(error, RateLimited):
        return Flash("warn", "Too many attempts.", f"Try again in {format_duration(error.retry_after_seconds)}.")
    if isinstance(error, Unavailable):
        return Flash("warn", "Temporarily unavailable.", error.message)
    return Flash("warn", error.message)
