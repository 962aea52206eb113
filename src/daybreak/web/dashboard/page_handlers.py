"""Route handlers of pages: they check the policy of the route, read the form, and turn errors into pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.authorization import require
from daybreak.access.session_activity import is_recorded, record_activity
from daybreak.access.sessions import require_recent_password
from daybreak.domain.display import display_for
from daybreak.domain.errors import DaybreakError, FileStoreError, Forbidden, RequestError, Unavailable
from daybreak.state.throttle import ThrottleRule
from daybreak.web.dashboard import csrf
from daybreak.web.dashboard.browser_session import AlreadySignedIn, SecondFactorRequired, SignInRequired
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.error_pages import error_page
from daybreak.web.dashboard.forms import read_form
from daybreak.web.dashboard.outcome import PageOutcome
from daybreak.web.dashboard.page_request import (
    PageRequest,
    form_page,
    load_page_request,
    read_page_form,
    require_operator,
)
from daybreak.web.dashboard.policy import Policy
from daybreak.web.dashboard.rendering import is_partial, local_path, page_of_partial, redirect
from daybreak.web.fair_queue import while_connected

Handler = Callable[[Request], Awaitable[Response]]
PublicHandler = Callable[[DashboardContext, Request], Awaitable[Response]]
PageHandler = Callable[[PageRequest], Awaitable[Response]]
FormHandler = Callable[[PageRequest], Awaitable[Response | PageOutcome]]
ShowForm = Callable[[PageRequest, PageOutcome], Awaitable[Response]]

NOT_KEPT = frozenset({csrf.FIELD, "username", "password", "current", "new", "repeated", "code", "response"})
"""Fields of forms that are secret or belong to one page. No URL contains them."""

_MAXIMUM_KEPT_LENGTH = 1000
_LIFETIME_SECONDS = 86400


def page_handler(dashboard: DashboardContext, handle: PageHandler, policy: Policy) -> Handler:
    """Return the route handler of a page of a signed-in user."""

    async def handler(request: Request) -> Response:
        work = _displayed(_respond(dashboard, request, handle, policy))
        return await (while_connected(request, work) if policy.is_slow else work)

    return handler


def form_handler(handle: FormHandler, show: ShowForm | None) -> PageHandler:
    """Return the handler of a posted form. If the form is rejected, `show` shows its page again."""

    async def process(page: PageRequest) -> Response:
        result = await handle(page)
        if isinstance(result, Response):
            return result
        assert show is not None, "a form that is rejected with an outcome needs the page that shows it"
        return await show(page, result)

    async def handler(page: PageRequest) -> Response:
        return await (process_once(page, process) if page.policy.once else process(page))

    return handler


def public_handler(dashboard: DashboardContext, handle: PublicHandler) -> Handler:
    """Return the route handler of a page that needs no session."""

    async def handler(request: Request) -> Response:
        try:
            return await handle(dashboard, request)
        except AlreadySignedIn:
            return redirect(dashboard, "/dashboard/", request)
        except SignInRequired as required:
            ended = "idle" if required.idle else "yes"
            return redirect(dashboard, f"/dashboard/sign-in?ended={ended}", request)
        except SecondFactorRequired:
            return redirect(dashboard, "/dashboard/second-factor", request)
        except DaybreakError as error:
            return error_page(dashboard, request, error, None)

    return handler


async def _displayed(response: Awaitable[Response]) -> Response:
    """Await a response whose times and numbers are shown for its reader."""
    with display_for():
        return await response


async def _respond(dashboard: DashboardContext, request: Request, handle: PageHandler, policy: Policy) -> Response:
    page: PageRequest | None = None
    try:
        page = await load_page_request(dashboard, request, policy)
        if policy.audience == "operator":
            require_operator(page)
        if request.method == "POST":
            page = replace(page, form=await read_page_form(page))
        page = _authorized(page)
        if policy.recent_password:
            require_recent_password(dashboard.services, page.session)
        response = await handle(page)
        if policy.is_activity and not is_recorded(page.session, page.now):
            # Written after the response is sent, which must not wait for a busy state database.
            services = dashboard.services
            response.background = BackgroundTask(record_activity, services, page.session, page.now)
        return response
    except SignInRequired as required:
        form = await _posted_form(dashboard, request) if page is None else page.form
        return _redirect_to_sign_in(dashboard, request, required, policy, form)
    except SecondFactorRequired:
        return redirect(dashboard, "/dashboard/second-factor", request)
    except FileStoreError:
        return error_page(dashboard, request, _files_unavailable(), page)
    except DaybreakError as error:
        if error.code == "reauthentication_required" and page is not None:
            return _redirect_to_password_prompt(page)
        return error_page(dashboard, request, error, page)


def _files_unavailable() -> Unavailable:
    return Unavailable("The files cannot be read now. Try again.", code="files_unavailable")


def _authorized(page: PageRequest) -> PageRequest:
    """Return the page with the refusal of its permission, if it explains one. Raises Forbidden if it does not."""
    if page.policy.permission is None:
        return page
    try:
        require(page.principal, page.policy.permission, page.client_id)
    except Forbidden as error:
        if not page.policy.explains_refusal:
            raise
        return replace(page, refusal=error)
    return page


def _redirect_to_password_prompt(page: PageRequest) -> Response:
    """Redirect to the password prompt, which continues to the page, or to the form with its fields."""
    next_path = _requested_path(page.dashboard, page.request)
    if page.request.method == "POST":
        next_path = page.form_path(**{**_kept_fields(page.form), "done": "confirm-again"})
    return redirect(page.dashboard, page.path("confirm", next=next_path), page.request)


async def _posted_form(dashboard: DashboardContext, request: Request) -> Mapping[str, str]:
    """Return the fields of a form that is not processed; none if another site sent it."""
    if request.method != "POST" or not csrf.is_same_origin(request, dashboard.services.settings.base_url):
        return {}
    try:
        return await read_form(request)
    except RequestError:
        return {}


def _redirect_to_sign_in(
    dashboard: DashboardContext, request: Request, required: SignInRequired, policy: Policy, form: Mapping[str, str]
) -> Response:
    if request.method in ("GET", "HEAD"):
        query = {"next": _requested_path(dashboard, request)}
        if required.had_session:
            query["ended"] = "idle" if required.idle else "yes"
        return redirect(dashboard, f"/dashboard/sign-in?{urlencode(query)}", request)
    folder = local_path(dashboard, request).split("/", 3)[2]
    kept = urlencode({**_kept_fields(form), "done": "nothing-saved"})
    next_path = f"/dashboard/{folder}/{form_page(dashboard, request, policy)}?{kept}"
    query = {"next": next_path, "ended": "idle-form" if required.idle else "form"}
    return redirect(dashboard, f"/dashboard/sign-in?{urlencode(query)}", request)


def _requested_path(dashboard: DashboardContext, request: Request) -> str:
    """Return the path of a page to return to. A part of a page is not one."""
    if is_partial(request):
        return page_of_partial(dashboard, request)
    return local_path(dashboard, request) + (f"?{request.url.query}" if request.url.query else "")


def _kept_fields(form: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a form for a URL. The ellipsis makes an incomplete list of values invalid, not shorter."""
    return {
        name: value if len(value) <= _MAXIMUM_KEPT_LENGTH else value[:_MAXIMUM_KEPT_LENGTH] + "\N{HORIZONTAL ELLIPSIS}"
        for name, value in form.items()
        if value and name not in NOT_KEPT
    }


async def process_once(page: PageRequest, process: Callable[[PageRequest], Awaitable[Response]]) -> Response:
    """Process a form, or redirect to the page `Policy.once` if it was processed before.

    The form token, which differs on every page, identifies the form. The record is in the state database, so that two
    clicks handled by two workers count as one. If the form is rejected, or after any error, the record is removed, so
    that the form can be sent again.
    """
    rule = ThrottleRule(f"form:{page.session.sid}:{csrf.salt_of(page.form[csrf.FIELD])}", 1, _LIFETIME_SECONDS)
    state = page.services.state
    if await state.awrite(lambda stores: stores.throttle.count([rule], page.now)) is not None:
        path, _, done = page.policy.once.format(**page.request.path_params).partition("?done=")
        return page.redirect(path, done=done)
    is_processed = False
    try:
        response = await process(page)
        is_processed = response.status_code < HTTPStatus.BAD_REQUEST
        return response
    finally:
        if not is_processed:
            await state.awrite(lambda stores: stores.throttle.clear(rule.key))
