"""Wrappers that turn page handlers into route handlers: sign-in, permissions and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlencode

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.session_activity import is_recorded, record_activity
from daybreak.domain.errors import DaybreakError, RequestError
from daybreak.web.dashboard import csrf
from daybreak.web.dashboard.browser_session import AlreadySignedIn, SecondFactorRequired, SignInRequired
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.error_pages import error_page
from daybreak.web.dashboard.forms import read_form
from daybreak.web.dashboard.page_request import PageRequest, load_page_request, require_operator
from daybreak.web.dashboard.rendering import is_partial, local_path, redirect
from daybreak.web.fair_queue import while_connected

Handler = Callable[[Request], Awaitable[Response]]
PageHandler = Callable[[PageRequest], Awaitable[Response]]
PublicHandler = Callable[[DashboardContext, Request], Awaitable[Response]]

_MAXIMUM_KEPT_LENGTH = 1000


def account_page(
    dashboard: DashboardContext,
    handle: PageHandler,
    *,
    return_to: str = "files",
    kept_fields: Sequence[str] = (),
    is_activity: bool = True,
    is_slow: bool = False,
) -> Handler:
    """Wrap a handler for a page on the account in the path. `is_activity` is that of `operator_page`.

    The work for a slow page ends when its client leaves. A slow page is never a streamed response: Granian cuts off the
    body of a response if the application waited for a disconnection before it.

    A form posted after the session has ended is not processed: after signing in again, the user
    returns to `return_to` with the form fields named in `kept_fields` filled in.
    """

    async def handler(request: Request) -> Response:
        client_id = request.path_params["client_id"]
        path = f"/dashboard/{client_id}/{return_to}"
        for name, value in request.path_params.items():
            path = path.replace("{" + name + "}", str(value))
        try:
            work = _handle_page(dashboard, request, client_id, handle, is_activity=is_activity)
            return await (while_connected(request, work) if is_slow else work)
        except SignInRequired as required:
            return await _redirect_to_sign_in(dashboard, request, required, path, kept_fields)

    return handler


def operator_page(dashboard: DashboardContext, handle: PageHandler, *, is_activity: bool = True) -> Handler:
    """Wrap a handler for an operator page, which belongs to no account.

    `is_activity` is false for a partial that pages request at intervals, which must not keep an idle session open.
    """

    async def handle_as_operator(page: PageRequest) -> Response:
        require_operator(page)
        return await handle(page)

    async def handler(request: Request) -> Response:
        try:
            return await _handle_page(dashboard, request, "", handle_as_operator, is_activity=is_activity)
        except SignInRequired as required:
            return await _redirect_to_sign_in(dashboard, request, required, "/dashboard/operator/runs", ())

    return handler


def public_page(dashboard: DashboardContext, handle: PublicHandler) -> Handler:
    """Wrap a handler for a page that needs no session."""

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


async def _handle_page(
    dashboard: DashboardContext, request: Request, client_id: str, handle: PageHandler, *, is_activity: bool = True
) -> Response:
    page: PageRequest | None = None
    try:
        page = await load_page_request(dashboard, request, client_id)
        response = await handle(page)
        if is_activity and not is_recorded(page.session, page.now):
            # Written after the response is sent, which must not wait for a busy state database.
            access = dashboard.services.access
            response.background = BackgroundTask(record_activity, access, page.session, page.now)
        return response
    except SecondFactorRequired:
        return redirect(dashboard, "/dashboard/second-factor", request)
    except DaybreakError as error:
        return error_page(dashboard, request, error, page)


async def _redirect_to_sign_in(
    dashboard: DashboardContext,
    request: Request,
    required: SignInRequired,
    return_to: str,
    kept_fields: Sequence[str],
) -> Response:
    if request.method in ("GET", "HEAD"):
        url = local_path(dashboard, request) + (f"?{request.url.query}" if request.url.query else "")
        # A partial is not a page to return to.
        query = {"next": url} if not is_partial(request) else {}
        if required.had_session:
            query["ended"] = "idle" if required.idle else "yes"
        return redirect(dashboard, f"/dashboard/sign-in?{urlencode(query)}", request)
    kept = {"done": "nothing-saved"}
    if kept_fields and csrf.is_same_origin(request, dashboard.services.settings.base_url):
        try:
            form = await read_form(request)
        except RequestError:
            form = {}
        kept.update({name: _kept(form[name]) for name in kept_fields if form.get(name)})
    query = {"next": f"{return_to}?{urlencode(kept)}", "ended": "idle-form" if required.idle else "form"}
    return redirect(dashboard, f"/dashboard/sign-in?{urlencode(query)}", request)


def _kept(value: str) -> str:
    """Shorten a form field for a URL. The ellipsis makes an incomplete list of values invalid instead of shorter."""
    return value if len(value) <= _MAXIMUM_KEPT_LENGTH else value[:_MAXIMUM_KEPT_LENGTH] + "\N{HORIZONTAL ELLIPSIS}"
