"""What stands before every page: who is there, what may be shown, and how a refusal looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from daybreak.domain.errors import DaybreakError, Forbidden, RateLimited, RequestError
from daybreak.web.dashboard import cross_site
from daybreak.web.dashboard.desk import Desk, go_to, is_part, render
from daybreak.web.dashboard.forms import read_form
from daybreak.web.dashboard.presentation import span
from daybreak.web.dashboard.visit import (
    AlreadyIn,
    SecondFactorNeeded,
    SignInNeeded,
    Visit,
    open_visit,
    require_operator,
    show,
)
from daybreak.web.problems import problem_headers, status_of
from daybreak.web.request_facts import facts_of
from daybreak.web.routing import Handler

Page = Callable[[Visit], Awaitable[Response]]

_HEADINGS: Mapping[str, str] = {
    "not_your_account": "Not your account",
    "account_inactive": "This account is inactive",
    "not_an_operator": "For operators",
    "not_found": "Nothing is here",
    "no_active_account": "No account to show",
    "second_factor_required": "A second factor is needed",
    "cross_site": "The form was not accepted",
    "state_unavailable": "Back in a moment",
    "files_unavailable": "The files are out of reach",
    "busy": "Many people at once",
    "rate_limited": "Too many attempts",
}


def account_page(desk: Desk, page: Page, *, comes_back_to: str = "files", keeps: Sequence[str] = ()) -> Handler:
    """A page on the account of the path. When a post finds the session over, the person signs in
    again and lands on `comes_back_to`, told that nothing was saved, with the fields `keeps` filled.
    """

    async def handler(request: Request) -> Response:
        client_id = request.path_params["client_id"]
        visit: Visit | None = None
        try:
            visit = await open_visit(desk, request, client_id)
            return await page(visit)
        except SignInNeeded as needed:
            back = f"/dashboard/{client_id}/{comes_back_to}"
            for name, value in request.path_params.items():
                back = back.replace("{" + name + "}", str(value))
            return await _sign_in(desk, request, needed, back, keeps)
        except SecondFactorNeeded:
            return go_to(desk, "/dashboard/second-factor", request)
        except DaybreakError as error:
            return refusal(desk, request, error, visit)

    return handler


def operator_page(desk: Desk, page: Page) -> Handler:
    """A page for operators, on no account."""

    async def handler(request: Request) -> Response:
        visit: Visit | None = None
        try:
            visit = await open_visit(desk, request, "")
            require_operator(visit)
            return await page(visit)
        except SignInNeeded as needed:
            return await _sign_in(desk, request, needed, "/dashboard/operator/runs", ())
        except SecondFactorNeeded:
            return go_to(desk, "/dashboard/second-factor", request)
        except DaybreakError as error:
            return refusal(desk, request, error, visit)

    return handler


def gate_page(desk: Desk, page: Callable[[Request], Awaitable[Response]]) -> Handler:
    """A page before somebody is signed in."""

    async def handler(request: Request) -> Response:
        try:
            return await page(request)
        except AlreadyIn:
            return go_to(desk, "/dashboard/", request)
        except SignInNeeded:
            return go_to(desk, "/dashboard/sign-in?ended=yes", request)
        except SecondFactorNeeded:
            return go_to(desk, "/dashboard/second-factor", request)
        except DaybreakError as error:
            return refusal(desk, request, error, None)

    return handler


def refusal(desk: Desk, request: Request, error: DaybreakError, visit: Visit | None) -> Response:
    """An error as a page: what happened and where to go; nothing of the inside of the service."""
    status = status_of(error)
    heading = _HEADINGS.get(error.code, "That did not work" if status < 500 else "Something went wrong here")
    text = error.message if isinstance(error, RequestError) or status == 503 else "It was noted. Please try again."
    if isinstance(error, RateLimited):
        text = f"{error.message} The next try counts in {span(float(error.retry_after_seconds))}."
    if isinstance(error, Forbidden) and error.code == "not_your_account":
        text = "Your seat has no access to this account, or there is no such account."
    headers = {name: value for name, value in problem_headers(error).items() if name != "WWW-Authenticate"}
    context: dict[str, object] = {
        "heading": heading,
        "text": text,
        "request_id": facts_of(request).request_id,
        "actions": _ways_on(desk, request, error),
        "publish_clock": desk.publish_clock,
        "leave": f"{desk.root}/dashboard/" if request.method == "POST" else "",
    }
    if visit is not None:
        return show(visit, "problem.html", "", context, status=status, headers=headers)
    return render(desk, request, "message.html", context, status=status, headers=headers)


async def _sign_in(
    desk: Desk, request: Request, needed: SignInNeeded, comes_back_to: str, keeps: Sequence[str]
) -> Response:
    if request.method in ("GET", "HEAD"):
        path = request.url.path.removeprefix(desk.root)
        back = path + (f"?{request.url.query}" if request.url.query else "")
        # A part of a page is no place to come back to.
        query = {"next": back} if not is_part(request) else {}
        if needed.had_session:
            query["ended"] = "yes"
        return go_to(desk, f"/dashboard/sign-in?{urlencode(query)}", request)
    kept = {"done": "nothing-saved"}
    if keeps and cross_site.from_own_page(request, desk.services.settings.base_url):
        try:
            form = await read_form(request, desk.services.settings)
        except RequestError:
            form = {}
        kept.update({name: form[name][:200] for name in keeps if form.get(name)})
    query = {"next": f"{comes_back_to}?{urlencode(kept)}", "ended": "form"}
    return go_to(desk, f"/dashboard/sign-in?{urlencode(query)}", request)


def _ways_on(desk: Desk, request: Request, error: DaybreakError) -> list[dict[str, str]]:
    home = {"url": f"{desk.root}/dashboard/", "text": "To your files"}
    again = {"url": str(request.url.path), "text": "Try again"}
    if error.transient and request.method == "GET":
        return [again]
    if error.code == "second_factor_required":
        return [{"url": f"{desk.root}/dashboard/sign-in?ended=again", "text": "Sign in with your second factor"}, home]
    if error.code == "no_active_account":
        return [{"url": f"{desk.root}/dashboard/sign-in?ended=again", "text": "Sign in as somebody else"}]
    return [home]
