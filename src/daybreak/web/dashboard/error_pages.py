"""Errors as pages for browsers and problem documents for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from daybreak.domain.errors import DaybreakError, Forbidden, RateLimited
from daybreak.settings import Settings
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.formatting import format_duration
from daybreak.web.dashboard.forms import ExpiredForm, kept_fields
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import PageOutcome, error_headers, render_template
from daybreak.web.http.negotiation import weights
from daybreak.web.http.problems import PROBLEMS, Problem, problem_headers, problem_of, problem_response
from daybreak.web.request_state import request_id_of

_HEADINGS: Mapping[str, str] = {
    "cross_site": "Form rejected",
    "not_found": "Page not found",
    "state_unavailable": "Temporarily unavailable",
    "unsupported_media_type": "Form rejected",
}
"""Headings of pages that differ from the title of the API's problem document."""

# Authorization is not listed: caches separate responses to authorized requests anyway (RFC 9110 §12.5.5).
_VARY = {"Vary": "Accept, Accept-Encoding"}


@dataclass(frozen=True, slots=True)
class EmptyState:
    """Heading and text of a page without content, and links by path on the account."""

    heading: str
    text: str
    links: tuple[tuple[str, str], ...] = ()


def error_state(error: Forbidden) -> EmptyState:
    """Return the text that a page shows instead of content that the user may not see."""
    return EmptyState(PROBLEMS[error.code][1], error.message)


def error_page(page: DashboardRequest, error: DaybreakError) -> Response:
    """Render an error inside the layout, or as a separate page if the user could not be identified."""
    problem = _problem(page, error)
    text = problem.detail
    if isinstance(error, RateLimited):
        text = f"Try again in {format_duration(error.retry_after_seconds)}."
    if error.code == "no_active_account":
        text = no_account_text(page.services.settings)
    if error.code == "not_your_account":
        text = (
            "You don't have access to this account, or it doesn't exist. If you need it, ask "
            f"{_operator(page.services.settings)}."
        )
    context: dict[str, object] = {
        **_error_context(problem, text),
        "actions": _actions(page, error),
        "history_url": f"{page.dashboard.root}/dashboard/" if page.request.method == "POST" else "",
    }
    outcome = PageOutcome(problem.status, error_headers(error), code=error.code)
    if isinstance(page, PageRequest):
        return render_page(page, "layout/error.html", context, outcome)
    return render_template(page, "layout/standalone_error.html", context, outcome)


def no_account_text(settings: Settings) -> str:
    """Return what a user without an active account can do."""
    return (
        f"Your seat has no access to an active account yet. Ask {_operator(settings)} for it, with your email and the "
        "name of the account. Then sign in."
    )


def _operator(settings: Settings) -> str:
    contact = settings.operator_contact
    return f"your operator ({contact})" if contact else "your operator"


def error_page_or_problem(page: DashboardRequest, error: DaybreakError) -> Response:
    """Return an error of a URL outside the dashboard as a page or as a problem document."""
    problem, headers = _problem(page, error), {**problem_headers(error), **_VARY}
    if not _prefers_html(page.request):
        return problem_response(problem, headers)
    context: dict[str, object] = {
        **_error_context(problem, problem.detail),
        "actions": [
            {"url": f"{page.dashboard.root}/dashboard/", "text": "Open dashboard"},
            {"url": f"{page.dashboard.root}/docs", "text": "API documentation"},
        ],
    }
    outcome = PageOutcome(problem.status, headers)
    return render_template(page, "layout/standalone_error.html", context, outcome)


def _problem(page: DashboardRequest, error: DaybreakError) -> Problem:
    base_url = page.services.settings.base_url
    return problem_of(error, request_id=request_id_of(page.request.scope), base_url=base_url)


def _error_context(problem: Problem, text: str) -> dict[str, object]:
    return {"heading": _HEADINGS.get(problem.code, problem.title), "text": text, "request_id": problem.request_id}


def _actions(page: DashboardRequest, error: DaybreakError) -> list[dict[str, str]]:
    root, request = page.dashboard.root, page.request
    files = {"url": f"{root}/dashboard/", "text": "Open files"}
    query = {"ended": "again"} | ({"next": page.local_path} if request.method == "GET" else {})
    sign_in = {"url": f"{root}/dashboard/sign-in?{urlencode(query)}", "text": "Sign in again"}
    if error.code in ("sign_in_refused", "provider_unavailable", "password_login_disabled"):
        return [{"url": f"{root}/dashboard/sign-in", "text": "Back to sign-in"}]
    if error.transient and request.method == "GET":
        return [{"url": str(request.url.path), "text": "Try again"}]
    if error.code == "second_factor_required":
        return [sign_in, files]
    if error.code == "second_factor_not_enrolled" and isinstance(page, PageRequest):
        settings = f"{root}/dashboard/{page.tab_account_id}/settings/security"
        return [{"url": settings, "text": "Set up second factor"}, files]
    if error.code == "no_active_account":
        return [sign_in]
    if isinstance(page, PageRequest):
        unprocessed = error.form if isinstance(error, ExpiredForm) else page.form if error.transient else {}
        if unprocessed:
            form_path = page.form_path(**kept_fields(unprocessed))
            return [{"url": root + form_path, "text": "Return to the form"}, files]
    return [files]


def _prefers_html(request: Request) -> bool:
    """Return whether the client prefers HTML to JSON.

    A request with a token comes from a program, even if it accepts HTML, as Java's `HttpURLConnection` does by default.
    """
    if "authorization" in request.headers:
        return False
    qualities = weights(request.headers.getlist("accept"))
    html = qualities.get("text/html", 0.0)
    return html > max(qualities.get(name, 0.0) for name in ("application/json", "application/problem+json"))
