"""Requests of signed-in users.

Each request reads session, seat, account and grant again, so that a revoked permission ends on
the next click. The account is part of the URL: two browser tabs can show two accounts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeVar
from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access import throttle
from daybreak.access.authorization import Action, account_fault, has_second_factor, not_your_account
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, principal_of
from daybreak.domain.audit import EventOrigin
from daybreak.domain.display import set_display
from daybreak.domain.errors import Forbidden, InvalidRequest, NotFound
from daybreak.domain.identity import (
    GrantedAccount,
    Principal,
    ResolvedSession,
    Seat,
    Session,
    is_id,
)
from daybreak.downloads import record_download
from daybreak.state.stores import Stores
from daybreak.web.dashboard.browser_session import SecondFactorRequired, load_session
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.rendering import redirect
from daybreak.web.fair_queue import in_thread
from daybreak.web.request_state import record_subject

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Conditions that are checked before the handler of a page runs.

    Attributes:
        audience: `account` is a seat with a grant on the account in the path. `operator` is an operator with a second
            factor. `public` needs no session; its handlers check the binding of their form.
        permission: Action that the seat must be allowed to perform on the account.
        explains_refusal: Without the permission, the page is shown and explains why: see `PageRequest.refusal`.
        recent_password: The password must have been entered recently. The user enters it, and returns to the form.
        once: Page to show when the same form is sent twice, with the message of its query parameter `done`;
            "" to process it again. A form that was rejected can be sent again.
        return_to: Page of the form, which the user returns to after signing in or confirming the password, with all
            fields; "" for the path of the route.
        section: Navigation link to mark as current.
        is_activity: False for a partial that pages request at intervals, which must not keep an idle session open.
        is_slow: The work ends when the client leaves. A slow page is never a streamed response: Granian cuts off the
            body of a response if the application waited for a disconnection before it.
    """

    audience: Literal["public", "account", "operator"] = "account"
    permission: Action | None = None
    explains_refusal: bool = False
    recent_password: bool = False
    once: str = ""
    return_to: str = ""
    section: str = ""
    is_activity: bool = True
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class PageRequest(DashboardRequest):
    """Request of a signed-in user.

    Attributes:
        client_id: Account in the path; "" on operator pages.
        granted: Account that this browser tab is on, with the seat's grant on it; None if the seat can open none. On
            operator pages, which have no account in the path, the query parameter `account` names it.
        account_count: Number of accounts that the seat has a grant on, inactive ones included.
        form: The posted fields, with the form token; empty for other methods.
        refusal: Why the user lacks the permission of a page that explains it.
    """

    now: datetime
    client_id: str
    resolved: ResolvedSession
    granted: GrantedAccount | None
    account_count: int
    policy: Policy
    form: Mapping[str, str] = field(default_factory=dict)
    refusal: Forbidden | None = None

    @property
    def session(self) -> Session:
        return self.resolved.session

    @property
    def seat(self) -> Seat:
        return self.resolved.seat

    @property
    def has_password(self) -> bool:
        """Whether the user can sign in with a password."""
        return self.services.settings.oidc.password_login and self.seat.password_hash is not None

    @property
    def active_session(self) -> ActiveSession:
        """The session as the access services expect it."""
        return ActiveSession(self.resolved, self.client_id)

    @property
    def principal(self) -> Principal:
        """Principal for the account in the path. Raises Forbidden if the session may not open it."""
        return principal_of(self.active_session, self.services.settings.access.require_second_factor)

    @property
    def queue_account(self) -> str:
        """Name of the fair share of this request: the account, or on operator pages the seat."""
        return self.client_id or self.seat.seat_id

    async def read(self, work: Callable[[Stores], T]) -> T:
        return await self.services.state.aread(work)

    async def find(self, work: Callable[[Stores], T | None], missing: str) -> T:
        """Read what the path names. Raises NotFound with a message if it is missing."""
        found = await self.read(work)
        if found is None:
            raise NotFound(missing)
        return found

    async def read_long(self, work: Callable[[Stores], T]) -> T:
        """Read much from the state database in a thread, in a fair queue. Raises Unavailable(busy)."""
        return await self.run_task(lambda: self.services.state.read(work))

    async def run_task(self, task: Callable[[], T]) -> T:
        """Run a task that takes long in a thread, in a fair queue. Raises Unavailable(busy)."""
        async with self.dashboard.tasks.slot(self.queue_account):
            return await in_thread(task)

    async def record(self, action: str, details: Mapping[str, object], *, sent_bytes: int = 0) -> None:
        """Record that data of the account is sent, unless the request is HEAD. It counts as a download, and its bytes.

        Raises RateLimited.
        """
        if self.request.method == "HEAD":
            return
        origin = EventOrigin.of(self.principal, self.now, self.caller)
        await record_download(self.services, origin, action, "ok", details, sent=sent_bytes)

    @property
    def fields(self) -> Mapping[str, str]:
        """Values to show in a form: those that were sent, or those of the query parameters."""
        return self.form or self.request.query_params

    @property
    def tab_account_id(self) -> str:
        """Id of the account that this browser tab is on; "" if the seat can open none."""
        return self.granted.account.client_id if self.granted is not None else ""

    def path(self, path: str, /, **query: str) -> str:
        """Return the path of a page on this account, or of an operator page, with its query parameters."""
        if self.policy.audience == "operator":
            return self._operator_path(path, query)
        return f"/dashboard/{self.client_id}/{_with_query(path, query)}"

    def operator_url(self, path: str, /, **query: str) -> str:
        """Return the path of an operator page below `base_url`, for links in pages."""
        return self.dashboard.root + self._operator_path(path, query)

    def _operator_path(self, path: str, query: Mapping[str, str]) -> str:
        return f"/dashboard/operator/{_with_query(path, {**query, 'account': self.tab_account_id})}"

    def url(self, path: str, /, **query: str) -> str:
        """Return the same path below `base_url`, for links in pages."""
        return self.dashboard.root + self.path(path, **query)

    def redirect(self, path: str, /, **query: str) -> Response:
        """Redirect to such a path. The parameter `done` names a message: see `rendering.redirect`."""
        return redirect(self, self.path(path, **query))

    def form_path(self, /, **query: str) -> str:
        """Return the path of the page whose form was sent."""
        return self.path(form_page(self, self.policy), **query)


def form_page(page: DashboardRequest, policy: Policy) -> str:
    """Return the last part of that path, which follows the account or `operator`."""
    return policy.return_to.format(**page.request.path_params) or page.local_path.split("/", 3)[3]


async def load_page_request(sent: DashboardRequest, policy: Policy) -> PageRequest:
    """Read the session of a request and check that it may open the account.

    Raises:
        SignInRequired: No session, or one that has ended.
        SecondFactorRequired: The session waits for its second factor.
        Forbidden: The account is unknown or inactive, or the seat has no access to it.
    """
    dashboard, request, services = sent.dashboard, sent.request, sent.services
    client_id = request.path_params["client_id"] if policy.audience == "account" else ""
    if client_id and not is_id(client_id):
        raise not_your_account()
    resolved = await load_session(sent, client_id or None)
    if resolved.session.awaiting_second_factor:
        raise SecondFactorRequired
    set_display(resolved.seat)
    record_subject(request, f"session:{resolved.session.sid}", client_id)
    if client_id:
        fault = account_fault(
            resolved.account, resolved.grant, resolved.session, services.settings.access.require_second_factor
        )
        if fault is not None:
            raise fault
    seat_id, tab_id = resolved.seat.seat_id, client_id or request.query_params.get("account", "")
    granted, count = await services.state.aread(
        lambda stores: (stores.seats.granted_account(seat_id, tab_id), stores.seats.count_granted_accounts(seat_id))
    )
    if granted is None:
        granted = await default_account(services, resolved)
    return PageRequest(dashboard, request, services.clock(), client_id, resolved, granted, count, policy)


async def default_account(services: Services, resolved: ResolvedSession) -> GrantedAccount | None:
    """Return the account to open after sign-in: the one used last, else the first by name.

    Return None if the session cannot open any of them.
    """
    policy, seat = services.settings.access.require_second_factor, resolved.seat

    def is_open(entry: GrantedAccount) -> bool:
        return account_fault(entry.account.status, entry.grant, resolved.session, policy) is None

    last_id = seat.last_client_id or ""
    last = await services.state.aread(lambda stores: stores.seats.granted_account(seat.seat_id, last_id))
    if last is not None and is_open(last):
        return last
    return next(filter(is_open, await services.granted_accounts(seat.seat_id)), None)


async def count_form(page: PageRequest) -> None:
    """Count a posted form of the seat. Raises RateLimited."""
    rules = throttle.change_rules(seat_id=page.seat.seat_id, accounts=page.account_count)
    await throttle.count_attempt(page.services.state, rules, page.now)


def require_operator(page: PageRequest) -> None:
    """Raise Forbidden unless the seat is an operator who has signed in with a second factor.

    With `access.operator_second_factor` off, an operator without a second factor needs none.
    """
    if not page.seat.operator:
        raise Forbidden("Only operators can open this page.", code="not_an_operator")
    if has_second_factor(page.session):
        return
    if page.seat.second_factor_enrolled:
        raise Forbidden(
            "Operator pages require a second factor. Sign in again with yours.", code="second_factor_required"
        )
    if page.services.settings.access.operator_second_factor:
        raise Forbidden(
            "Operator pages require a second factor. Set one up, then sign in again with it.",
            code="second_factor_not_enrolled",
        )


def _with_query(path: str, query: Mapping[str, str]) -> str:
    text = urlencode({name: value for name, value in query.items() if value})
    return f"{path}?{text}" if text else path


def parse_integer(text: str | None, *, maximum: int, default: int) -> int:
    """Parse a query parameter, at least 1; return the default if it is absent. Raises InvalidRequest."""
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not 1 <= int(text) <= maximum:
        raise InvalidRequest("Invalid number in the URL.")
    return int(text)
