"""Requests of signed-in users.

Each request reads session, seat, account and grant again, so that a revoked permission ends on
the next click. The account is part of the URL: two browser tabs can show two accounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from starlette.requests import Request

from daybreak.access import throttle
from daybreak.access.accounts import granted_accounts
from daybreak.access.audit_trail import EventOrigin
from daybreak.access.authorization import account_fault, has_second_factor, not_your_account
from daybreak.access.sessions import ActiveSession, principal_of
from daybreak.domain.errors import Forbidden, InvalidRequest
from daybreak.domain.identity import Caller, GrantedAccount, Principal, ResolvedSession, Seat, Session, is_id
from daybreak.downloads import record_download
from daybreak.web.dashboard.browser_session import SecondFactorRequired, load_session
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.forms import read_verified_form
from daybreak.web.request_state import caller_of, record_subject


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Request of a signed-in user.

    Attributes:
        client_id: Account in the path; "" on operator pages.
        accounts: Accounts that the seat has a grant on, inactive ones included, by name.
    """

    dashboard: DashboardContext
    request: Request
    now: datetime
    caller: Caller
    client_id: str
    resolved: ResolvedSession
    accounts: tuple[GrantedAccount, ...]

    @property
    def session(self) -> Session:
        return self.resolved.session

    @property
    def seat(self) -> Seat:
        return self.resolved.seat

    @property
    def active_session(self) -> ActiveSession:
        """The session as the access services expect it."""
        return ActiveSession(self.session, self.seat, self.client_id, self.session.device_id or "", self.resolved)

    @property
    def principal(self) -> Principal:
        """Principal for the account in the path. Raises Forbidden if the session may not open it."""
        return principal_of(self.active_session, self.dashboard.second_factor_policy)

    async def record(self, action: str, details: Mapping[str, object]) -> None:
        """Record that data of the account is sent. It counts as a download. Raises RateLimited."""
        origin = EventOrigin.of(self.principal, self.now, self.caller)
        await record_download(self.dashboard.services.downloads, origin, action, "ok", details)

    def path(self, path: str) -> str:
        """Return the path of a page on this account, or of an operator page, for redirects."""
        return f"/dashboard/{self.client_id or 'operator'}/{path}"

    def url(self, path: str) -> str:
        """Return the path of a page on this account below `base_url`, for links in pages."""
        return self.dashboard.root + self.path(path)

    def url_with(self, path: str, /, **query: str) -> str:
        """Return such a path with query parameters; empty ones are left out."""
        text = urlencode({name: value for name, value in query.items() if value})
        return f"{self.url(path)}?{text}" if text else self.url(path)


async def load_page_request(dashboard: DashboardContext, request: Request, client_id: str) -> PageRequest:
    """Read the session of a request and check that it may open the account.

    Raises:
        SignInRequired: No session, or one that has ended.
        SecondFactorRequired: The session waits for its second factor.
        Forbidden: The account is unknown or inactive, or the seat has no access to it.
    """
    if client_id and not is_id(client_id):
        raise not_your_account()
    resolved = await load_session(dashboard, request, client_id or None)
    if resolved.session.awaiting_second_factor:
        raise SecondFactorRequired
    record_subject(request, f"session:{resolved.session.sid}", client_id)
    services = dashboard.services
    accounts = await granted_accounts(services.state, resolved.seat.seat_id)
    page = PageRequest(dashboard, request, services.clock(), caller_of(request), client_id, resolved, accounts)
    if client_id:
        fault = account_fault(resolved.account, resolved.grant, resolved.session, dashboard.second_factor_policy)
        if fault is not None:
            raise fault
    return page


async def read_page_form(page: PageRequest) -> dict[str, str]:
    """Read the posted form of a page, and count it. Raises Forbidden(cross_site), InvalidRequest or RateLimited."""
    form = await read_verified_form(page.dashboard, page.request, page.session.sid)
    rules = throttle.change_rules(seat_id=page.seat.seat_id)
    await throttle.count_attempt(page.dashboard.services.state, rules, page.now)
    return form


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
    if page.dashboard.services.settings.access.operator_second_factor:
        raise Forbidden(
            "Operator pages require a second factor. Set one up, then sign in again with it.",
            code="second_factor_not_enrolled",
        )


def parse_integer(text: str | None, *, minimum: int, maximum: int, default: int) -> int:
    """Parse a query parameter; return the default if it is absent. Raises InvalidRequest."""
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not minimum <= int(text) <= maximum:
        raise InvalidRequest("Invalid number in the URL.")
    return int(text)
