"""From a request to the person behind it: one read of the state database, nothing kept.

The account is part of the path, so each browser tab keeps its own. Every request re-reads session,
seat, account and grant: what was revoked is closed on the next click.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.authorization import account_fault, has_second_factor, not_your_account, session_fault
from daybreak.access.reach import reach_of
from daybreak.access.sessions import SignedIn, enter
from daybreak.domain.errors import Forbidden, InvalidRequest, RequestError, Unauthenticated
from daybreak.domain.identity import Caller, Principal, Reach, Seat, Session, SessionStanding, is_id
from daybreak.web.dashboard import cross_site
from daybreak.web.dashboard.desk import Desk, render
from daybreak.web.dashboard.forms import read_form
from daybreak.web.dashboard.session_cookie import read_cookie
from daybreak.web.request_facts import facts_of

SWITCHER_SHOWS = 8
# What a redirect after a success may say; the address names it, the words are here.
FLASHES: Mapping[str, tuple[str, str, str]] = {
    "token-revoked": ("good", "The token is revoked.", "It is refused from now on."),
    "token-exists": (
        "warn",
        "That form was sent before.",
        "Its token was made once and shown once. If you did not see it, revoke it and make another.",
    ),
    "token-gone": ("warn", "That token was revoked already.", ""),
    "password-changed": ("good", "Your password is changed.", "Your other sessions have ended."),
    "factor-on": ("good", "Your second factor is on.", ""),
    "codes-exist": (
        "warn",
        "That form was sent before.",
        "New codes were made and shown once. If you did not keep them, make new ones.",
    ),
    "session-ended": ("good", "The session has ended.", ""),
    "session-gone": ("warn", "That session had ended already.", ""),
    "nothing-saved": (
        "warn",
        "Your session had ended, so nothing was saved.",
        "You are signed in again: please send the form once more.",
    ),
    "accepted": ("good", "The snapshot is published.", ""),
    "discarded": ("good", "The snapshot is discarded.", "The one before it stays served."),
    "decided": ("warn", "That snapshot was decided on already.", ""),
}


class SignInNeeded(Exception):
    """Nobody is signed in, or no longer. `had_session` tells the one from the other."""

    def __init__(self, *, had_session: bool) -> None:
        super().__init__("sign in")
        self.had_session = had_session


class SecondFactorNeeded(Exception):
    """The session waits for its second factor."""


class AlreadyIn(Exception):
    """The session waits for nothing: the first of two clicks did it, or the back button came here."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of somebody signed in. `client_id` is "" on pages without an account.

    `reach` holds every account of the seat, by name.
    """

    desk: Desk
    request: Request
    now: datetime
    caller: Caller
    session: Session
    seat: Seat
    client_id: str
    standing: SessionStanding
    reach: tuple[Reach, ...]

    @property
    def who(self) -> SignedIn:
        """The session as the access services take it."""
        return SignedIn(self.session, self.seat, self.client_id, self.session.device_id or "", self.standing)

    @property
    def principal(self) -> Principal:
        """The person on the account of the path. Raises Forbidden when it is closed to the session."""
        return enter(self.who)

    def here(self, path: str) -> str:
        """An own path on this tab's account."""
        return f"{self.desk.root}/dashboard/{self.client_id}/{path}"

    def path(self, path: str) -> str:
        """The same without the part that `base_url` puts in front, for redirects."""
        return f"/dashboard/{self.client_id}/{path}"


async def open_visit(desk: Desk, request: Request, client_id: str) -> Visit:
    """Raises SignInNeeded, SecondFactorNeeded; Forbidden when the account is not open to the seat."""
    if client_id and not is_id(client_id):
        raise not_your_account()
    services = desk.services
    sid = read_cookie(request, "session", secure=desk.secure, keyring=services.keyring.current())
    if sid is None:
        raise SignInNeeded(had_session=False)

    standing = await services.state.aread(lambda stores: stores.sessions.standing(sid, client_id or None))
    now = services.clock()
    fault = session_fault(standing, now)
    if isinstance(fault, Unauthenticated) or standing is None or standing.session.kind != "dashboard":
        raise SignInNeeded(had_session=True)
    if fault is not None:
        raise SecondFactorNeeded
    facts = facts_of(request)
    facts.subject, facts.client_id = f"session:{sid}", client_id
    reach = await reach_of(services.state, standing.seat.seat_id)
    visit = Visit(desk, request, now, facts.caller, standing.session, standing.seat, client_id, standing, reach)
    if client_id:
        closed = account_fault(standing.account, standing.grant, standing.session)
        if closed is not None:
            raise closed
    return visit


async def read_post(visit: Visit) -> dict[str, str]:
    """The form of a post from an own page. Raises Forbidden(cross_site), InvalidRequest."""
    return await read_own_form(visit.desk, visit.request, visit.session.sid)


async def read_own_form(desk: Desk, request: Request, binding: str) -> dict[str, str]:
    """The same for forms that are bound to something else than a session."""
    if not cross_site.from_own_page(request, desk.services.settings.base_url):
        raise Forbidden("This form was not sent from a page of this service.", code="cross_site")
    form = await read_form(request, desk.services.settings)
    if not cross_site.token_is_good(form.pop(cross_site.FIELD, None), binding, keyring=desk.services.keyring.current()):
        raise Forbidden(
            "This form is from an earlier sign-in. Open the page again and send it once more.", code="cross_site"
        )
    return form


def csrf_field(desk: Desk, binding: str) -> Markup:
    """The hidden field of a form."""
    token = cross_site.form_token(binding, keyring=desk.services.keyring.current(), random=desk.services.random)
    return Markup('<input type="hidden" name="{}" value="{}">').format(cross_site.FIELD, token)


@dataclass(frozen=True, slots=True)
class Flash:
    """One line about what was just done: `kind` is good, warn or bad."""

    kind: str
    title: str
    text: str = ""


def show(
    visit: Visit,
    template: str,
    section: str,
    context: Mapping[str, object],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    flash: Flash | None = None,
) -> Response:
    """A page inside the frame: account, navigation, who is signed in."""
    desk = visit.desk
    query = visit.request.query_params
    tab_account = visit.client_id or _tab_account(visit)
    entry = next((entry for entry in visit.reach if entry.account.client_id == tab_account), None)
    carried = f"?{urlencode({'account': tab_account})}" if entry is not None else ""
    if flash is None and query.get("done") in FLASHES:
        flash = Flash(*FLASHES[query["done"]])

    def here(path: str) -> str:
        return f"{desk.root}/dashboard/{tab_account}/{path}"

    def current(name: str) -> Markup:
        return Markup(' aria-current="page"') if name == section else Markup("")

    frame: dict[str, object] = {
        "seat": visit.seat,
        "account": entry.account if entry is not None else None,
        "accounts_total": len(visit.reach),
        "section": section,
        "home": here("files") if entry is not None else f"{desk.root}/dashboard/",
        "here": here,
        "operator": lambda path: f"{desk.root}/dashboard/operator/{path}{carried}",
        "current": current,
        "csrf_field": lambda: csrf_field(desk, visit.session.sid),
        "flash": flash,
        "uses_charts": False,
        "wide_list": False,
        **account_choices(visit, tab_account, "", section),
    }
    return render(desk, visit.request, template, {**frame, **context}, status=status, headers=headers)


def account_choices(
    visit: Visit, current_id: str, query: str, section: str, *, most: int = SWITCHER_SHOWS
) -> dict[str, object]:
    """Accounts for the switcher: those that match, the first `most` of them."""
    root = visit.desk.root
    page = {"tokens": "settings/tokens", "security": "settings/security"}.get(section, section)
    if page not in ("files", "insight", "activity", "settings/tokens", "settings/security"):
        page = "files"
    wanted = query.casefold().split()
    found = [entry for entry in visit.reach if _matches(entry, wanted)]
    choices = [
        {
            "name": entry.account.name,
            "phone_number": entry.account.phone_number,
            "active": entry.account.active,
            "data_export": entry.grant.data_export,
            "current": entry.account.client_id == current_id,
            "url": f"{root}/dashboard/{entry.account.client_id}/{page}",
        }
        for entry in found[:most]
    ]
    accounts_url = f"{root}/dashboard/{current_id}/accounts"
    return {
        "account_choices": choices,
        "choices_left": len(found) - len(choices),
        "accounts_url": accounts_url,
        "all_accounts_url": f"{accounts_url}?{urlencode({'q': query, 'section': section})}",
    }


def open_accounts(session: Session, reach: tuple[Reach, ...]) -> list[Reach]:
    """The accounts that this session may enter."""
    return [entry for entry in reach if account_fault(entry.account.standing, entry.grant, session) is None]


def first_account(seat: Seat, session: Session, reach: tuple[Reach, ...]) -> str | None:
    """Where somebody lands: the account used last, else the first by name; None without any."""
    entries = open_accounts(session, reach)
    if any(entry.account.client_id == seat.last_client_id for entry in entries):
        return seat.last_client_id
    return entries[0].account.client_id if entries else None


def require_operator(visit: Visit) -> None:
    """Raises Forbidden(not_an_operator). Operators with a second factor must have shown it."""
    if not visit.seat.operator:
        raise Forbidden("These pages are for operators of the service.", code="not_an_operator")
    if visit.seat.second_factor_enrolled and not has_second_factor(visit.session):
        raise Forbidden("Sign in again with your second factor.", code="second_factor_required")


def whole_number(text: str | None, *, least: int, most: int, fallback: int) -> int:
    """A number from an address; the fallback when there is none. Raises InvalidRequest."""
    if not text:
        return fallback
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:
        raise InvalidRequest("A number in the address is not one.")
    return int(text)


def fault_of(error: RequestError) -> tuple[str, str]:
    """A heading and a text for an error that a page shows in its own place."""
    headings = {
        "data_export_required": "No Data Export access",
        "api_tokens_disabled": "API tokens are not enabled for this account",
        "async_rest_api_required": "Your seat may not use API tokens here",
        "snapshot_not_ready": "No files yet",
    }
    return headings.get(error.code, "Not possible"), error.message


def _tab_account(visit: Visit) -> str:
    asked = visit.request.query_params.get("account", "")
    if any(entry.account.client_id == asked for entry in visit.reach):
        return asked
    return first_account(visit.seat, visit.session, visit.reach) or ""


def _matches(entry: Reach, wanted: list[str]) -> bool:
    text = f"{entry.account.name} {entry.account.phone_number} {entry.account.client_id}".casefold()
    return all(word in text for word in wanted)
