"""Routes of pages, each with its policy. Their handlers check it, read the form, and turn errors into pages."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal
from urllib.parse import urlencode

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak.access.authorization import require
from daybreak.access.sessions import is_recorded, record_activity, require_recent_password
from daybreak.domain.display import display_for
from daybreak.domain.errors import DaybreakError, FileStoreError, Forbidden, OperatorError, RequestError, Unavailable
from daybreak.state.throttle import ThrottleRule
from daybreak.web.dashboard.browser_session import AlreadySignedIn, SecondFactorRequired, SignInRequired
from daybreak.web.dashboard.context import DashboardContext, DashboardRequest
from daybreak.web.dashboard.error_pages import error_page
from daybreak.web.dashboard.forms import (
    CSRF_FIELD,
    is_same_origin,
    kept_fields,
    login_of,
    read_form,
    read_verified_form,
    safe_redirect_path,
    salt_of,
)
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import (
    PageRequest,
    Policy,
    count_form,
    form_page,
    load_page_request,
    require_operator,
)
from daybreak.web.dashboard.rendering import SUCCESS, Flash, PageOutcome, is_partial, page_of_partial, redirect
from daybreak.web.fair_queue import while_connected

Handler = Callable[[Request], Awaitable[Response]]
PublicHandler = Callable[[DashboardRequest], Awaitable[Response]]
PageHandler = Callable[[PageRequest], Awaitable[Response]]
FormHandler = Callable[[PageRequest], Awaitable[Response | PageOutcome]]
ShowForm = Callable[[PageRequest, PageOutcome], Awaitable[Response]]
Method = Literal["GET", "POST"]

_LIFETIME_SECONDS = 86400


class PageRoute(Route):
    """A route of a page."""

    def __init__(self, path: str, handler: Handler, method: Method, policy: Policy) -> None:
        super().__init__(path, handler, methods=[method])
        self.policy = policy


@dataclass(frozen=True, slots=True)
class PageRoutes:
    """Creates the routes of pages."""

    dashboard: DashboardContext

    def public(self, path: str, handle: PublicHandler, method: Method = "GET") -> PageRoute:
        """Return the route of a page that needs no session."""

        async def handler(request: Request) -> Response:
            page = DashboardRequest(self.dashboard, request)
            try:
                return await handle(page)
            except AlreadySignedIn:
                return redirect(page, "/dashboard/")
            except SignInRequired as required:
                return redirect(page, f"/dashboard/sign-in?ended={'idle' if required.idle else 'yes'}")
            except SecondFactorRequired:
                return redirect(page, "/dashboard/second-factor")
            except DaybreakError as error:
                return error_page(page, error)

        return PageRoute(path, handler, method, Policy(audience="public"))

    def get(self, path: str, handle: PageHandler, policy: Policy, method: Method = "GET") -> PageRoute:
        """Return the route of a page of a signed-in user."""

        async def handler(request: Request) -> Response:
            work = _respond(DashboardRequest(self.dashboard, request), handle, policy)
            with display_for():
                return await (while_connected(request, work) if policy.is_slow else work)

        return PageRoute(path, handler, method, policy)

    def post(self, path: str, handle: FormHandler, policy: Policy, show: ShowForm | None = None) -> PageRoute:
        """Return the route of a form. If it is rejected, also by an OperatorError, `show` shows its page again."""

        async def process(page: PageRequest) -> Response:
            try:
                result = await handle(page)
            except OperatorError as error:
                if show is None:
                    raise
                result = PageOutcome(409, flash=Flash("bad", error.message))
            if isinstance(result, Response):
                return result
            assert show is not None, "a form that is rejected with an outcome needs the page that shows it"
            return await show(page, result)

        async def handler(page: PageRequest) -> Response:
            return await (process_once(page, process) if policy.once else process(page))

        return self.get(path, handler, policy, "POST")

    def form(self, path: str, show: ShowForm, handle: FormHandler, policy: Policy) -> list[PageRoute]:
        """Return the routes of a page whose form is sent to the same path."""

        async def show_new(page: PageRequest) -> Response:
            return await show(page, SUCCESS)

        return [self.get(path, show_new, policy), self.post(path, handle, policy, show)]

    def confirmation(
        self,
        path: str,
        template: str,
        load: Callable[[PageRequest], Awaitable[Mapping[str, object] | Response]],
        handle: FormHandler,
        policy: Policy,
    ) -> list[PageRoute]:
        """Return the routes of a change, and of the page that asks to confirm it and names what it ends.

        The template extends `layout/confirmation.html`. `load` returns its variables, or another page to show instead.
        """

        async def show(page: PageRequest, outcome: PageOutcome) -> Response:
            found = await load(page)
            if isinstance(found, Response):
                return found
            action_url = page.dashboard.root + page.form_path()
            context = {"values": page.fields, "action_url": action_url, "page_url": page.url, **found}
            return render_page(page, template, context, outcome)

        return self.form(path, show, handle, policy)


async def _respond(sent: DashboardRequest, handle: PageHandler, policy: Policy) -> Response:
    page: PageRequest | None = None
    try:
        page = await load_page_request(sent, policy)
        if policy.audience == "operator":
            require_operator(page)
        if sent.request.method == "POST":
            page = replace(page, form=await read_verified_form(page, login_of(page.session)))
            await count_form(page)
        page = _authorized(page)
        if policy.recent_password:
            require_recent_password(page.services, page.session)
        response = await handle(page)
        if policy.is_activity and not is_recorded(page.session, page.now):
            # Written after the response is sent, which must not wait for a busy state database.
            response.background = BackgroundTask(record_activity, page.services, page.session, page.now)
        return response
    except SignInRequired as required:
        form = await _posted_form(sent) if page is None else page.form
        return _redirect_to_sign_in(sent, required, policy, form)
    except SecondFactorRequired:
        return redirect(sent, "/dashboard/second-factor")
    except FileStoreError:
        unavailable = Unavailable("The files cannot be read now. Try again.", code="files_unavailable")
        return error_page(page or sent, unavailable)
    except DaybreakError as error:
        if error.code == "reauthentication_required" and page is not None:
            return _redirect_to_password_prompt(page)
        return error_page(page or sent, error)


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
    next_path = _requested_path(page)
    if page.request.method == "POST":
        next_path = page.form_path(**{**kept_fields(page.form), "done": "confirm-again"})
    return redirect(page, page.path("confirm", next=safe_redirect_path(next_path, fallback="")))


async def _posted_form(page: DashboardRequest) -> Mapping[str, str]:
    """Return the fields of a form that is not processed; none if another site sent it."""
    if page.request.method != "POST" or not is_same_origin(page.request, page.services.settings.base_url):
        return {}
    try:
        return await read_form(page.request)
    except RequestError:
        return {}


def _redirect_to_sign_in(
    page: DashboardRequest, required: SignInRequired, policy: Policy, form: Mapping[str, str]
) -> Response:
    query = {}
    if page.request.method in ("GET", "HEAD"):
        next_path = _requested_path(page)
        if required.had_session:
            query["ended"] = "idle" if required.idle else "yes"
    else:
        folder = page.local_path.split("/", 3)[2]
        kept = urlencode({**kept_fields(form), "done": "nothing-saved"})
        next_path = f"/dashboard/{folder}/{form_page(page, policy)}?{kept}"
        query["ended"] = "idle-form" if required.idle else "form"
    query = {"next": safe_redirect_path(next_path, fallback=""), **query}
    return redirect(page, f"/dashboard/sign-in?{urlencode(query)}")


def _requested_path(page: DashboardRequest) -> str:
    """Return the path of a page to return to. A part of a page is not one."""
    if is_partial(page):
        return page_of_partial(page)
    return page.local_path + (f"?{page.request.url.query}" if page.request.url.query else "")


async def process_once(page: PageRequest, process: Callable[[PageRequest], Awaitable[Response]]) -> Response:
    """Process a form, or redirect to the page `Policy.once` if it was processed before.

    The form token, which differs on every page, identifies the form. The record is in the state database, so that two
    clicks handled by two workers count as one. If the form is rejected, or after any error, the record is removed, so
    that the form can be sent again.
    """
    rule = ThrottleRule(f"form:{page.seat.seat_id}:{salt_of(page.form[CSRF_FIELD])}", 1, _LIFETIME_SECONDS)
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
