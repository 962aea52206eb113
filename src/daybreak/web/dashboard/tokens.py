"""Settings > API tokens: list, create (password first, shown once), revoke (asked first)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access import api_tokens
from daybreak.access.authorization import require
from daybreak.access.sessions import reauthenticate, require_recent
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES, resource_named
from daybreak.domain.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from daybreak.domain.identity import ApiToken
from daybreak.ports.access_stores import ThrottleRule
from daybreak.web.dashboard.desk import Desk, go_to
from daybreak.web.dashboard.doorway import account_page
from daybreak.web.dashboard.files import curl_line
from daybreak.web.dashboard.forms import own_path
from daybreak.web.dashboard.presentation import span
from daybreak.web.dashboard.visit import Flash, Visit, fault_of, read_post, show
from daybreak.web.problems import status_of
from daybreak.web.routing import Route, methods

_EXPIRIES: Mapping[str, tuple[str, timedelta | None]] = {
    "90": ("in 90 days", timedelta(days=90)),
    "30": ("in 30 days", timedelta(days=30)),
    "365": ("in a year", timedelta(days=365)),
    "never": ("never", None),
}
_ONCE_SECONDS = 86400
_ONCE_DIGITS = 32


def token_pages(desk: Desk) -> list[Route]:
    """The routes of API tokens, and of showing the password again."""
    base = "/dashboard/{client_id}/settings/tokens"
    revoke = account_page(desk, _ask_revoke)
    return [
        methods(base, GET=account_page(desk, _list)),
        methods(
            f"{base}/new",
            GET=account_page(desk, _ask_new),
            POST=account_page(desk, _create, comes_back_to="settings/tokens/new", keeps=("name", "expiry")),
        ),
        methods(
            f"{base}/{{token_id}}/revoke",
            GET=revoke,
            POST=account_page(desk, _revoke, comes_back_to="settings/tokens/{token_id}/revoke"),
        ),
        methods(
            "/dashboard/{client_id}/confirm",
            GET=account_page(desk, _ask_password),
            POST=account_page(desk, _confirm_password),
        ),
    ]


async def first_time(visit: Visit, once: str) -> bool:
    """Whether a form with this number is sent for the first time. Counted in the state database,
    so that two clicks in two workers make one thing.
    """
    if len(once) != _ONCE_DIGITS or not once.isalnum():
        raise InvalidRequest("The form is incomplete. Open the page again.")
    rule = ThrottleRule(f"form:{visit.session.sid}:{once}", 1, _ONCE_SECONDS)
    counted = await visit.desk.services.state.awrite(lambda stores: stores.throttle.count([rule], visit.now))
    return counted is None


async def unsent(visit: Visit, once: str) -> None:
    """Takes that back, when the form was refused and may be sent again."""
    key = f"form:{visit.session.sid}:{once}"
    await visit.desk.services.state.awrite(lambda stores: stores.throttle.clear(key))


def to_confirm(visit: Visit, next_path: str) -> Response:
    """To the page that asks for the password again, and from there on."""
    return go_to(visit.desk, visit.path(f"confirm?{urlencode({'next': next_path})}"))


async def _list(visit: Visit) -> Response:
    blocked = None
    tokens: list[ApiToken] = []
    try:
        tokens = await api_tokens.list_of_account(visit.desk.services.access, visit.principal)
    except Forbidden as fault:
        heading, text = fault_of(fault)
        contact = visit.desk.services.settings.operator_contact
        blocked = {"heading": f"{heading}.", "text": text + (f" Ask {contact}." if contact else "")}
    live_first = sorted(tokens, key=lambda token: (_state(token, visit) != "active", -token.created_at.timestamp()))
    context: dict[str, object] = {
        "tokens": [_token_view(token, visit) for token in live_first],
        "blocked": blocked,
    }
    return show(visit, "tokens.html", "tokens", context)


async def _ask_new(visit: Visit) -> Response:
    require(visit.principal, "manage_api_tokens", visit.client_id)
    asked = visit.request.query_params
    values = {"name": asked.get("name", "")[:100], "expiry": asked.get("expiry", "90")}
    try:
        require_recent(visit.desk.services.access, visit.session)
    except Forbidden:
        return to_confirm(visit, visit.path(f"settings/tokens/new?{urlencode(values)}"))
    return _form(visit, values)


def _form(
    visit: Visit,
    values: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    *,
    status: int = 200,
    flash: Flash | None = None,
) -> Response:
    context: dict[str, object] = {
        "values": {"expiry": "90", **values},
        "errors": {"name": "", "expiry": "", **(errors or {})},
        "expiries": [(key, label) for key, (label, _) in _EXPIRIES.items()],
        "once": visit.desk.services.random(_ONCE_DIGITS // 2).hex(),
    }
    return show(visit, "token_new.html", "tokens", context, status=status, flash=flash)


async def _create(visit: Visit) -> Response:
    form = await read_post(visit)
    services = visit.desk.services
    values = {"name": form.get("name", "")[:100], "expiry": form.get("expiry", "")}
    try:
        require_recent(services.access, visit.session)
    except Forbidden:
        return to_confirm(visit, visit.path(f"settings/tokens/new?{urlencode(values)}"))
    if values["expiry"] not in _EXPIRIES:
        return _form(visit, values, {"expiry": "Choose one of these."}, status=400)
    once = form.get("once", "")
    if not await first_time(visit, once):
        return go_to(visit.desk, visit.path("settings/tokens?done=token-exists"))
    lifetime = _EXPIRIES[values["expiry"]][1]
    try:
        minted = await api_tokens.create(
            services.access,
            visit.principal,
            name=values["name"],
            expires_at=visit.now + lifetime if lifetime is not None else None,
            caller=visit.caller,
        )
    except InvalidRequest as fault:
        await unsent(visit, once)
        return _form(visit, values, {"name": fault.faults[0].detail if fault.faults else fault.message}, status=400)
    except Conflict as fault:
        await unsent(visit, once)
        return _form(visit, values, status=409, flash=Flash("warn", fault.message))
    first = format_named(services.settings.formats[0])
    context: dict[str, object] = {
        "leave": visit.here("settings/tokens"),
        "name": minted.token.name,
        "expires_at": minted.token.expires_at,
        "secret": minted.secret,
        "curl": curl_line(visit, resource_named("campaigns"), first, minted.secret),
        "curl_file": resource_named("campaigns").file_name(first),
        "client_lines": _client_lines(visit, minted.secret),
        "resources": len(RESOURCES),
    }
    return show(visit, "token_created.html", "tokens", context)


def _client_lines(visit: Visit, secret: str) -> str:
    """Lines for a terminal, or for a file and cron, with which the command `daybreak` fetches the account's files."""
    variables = {
        "SERVICE": visit.desk.services.settings.base_url,
        "ACCOUNT": visit.client_id,
        "TOKEN": secret,
    }
    return "".join(f"export DAYBREAK_{name}={value}\n" for name, value in variables.items()) + "daybreak fetch exports"


async def _ask_revoke(visit: Visit) -> Response:
    token = await _one(visit)
    if token.revoked_at is not None:
        return go_to(visit.desk, visit.path("settings/tokens?done=token-gone"))
    return show(visit, "token_revoke.html", "tokens", {"token": _token_view(token, visit)})


async def _revoke(visit: Visit) -> Response:
    await read_post(visit)
    token = await _one(visit)
    await api_tokens.revoke(visit.desk.services.access, visit.principal, token.token_id, visit.caller)
    done = "token-revoked" if token.revoked_at is None else "token-gone"
    return go_to(visit.desk, visit.path(f"settings/tokens?done={done}"))


async def _ask_password(visit: Visit) -> Response:
    return _password_form(visit, own_path(visit.request.query_params.get("next"), fallback=visit.path("files")))


async def _confirm_password(visit: Visit) -> Response:
    form = await read_post(visit)
    next_path = own_path(form.get("next"), fallback=visit.path("files"))
    try:
        await reauthenticate(visit.desk.services.access, visit.who, form.get("password", "")[:1024], visit.caller)
    except Unauthenticated as fault:
        return _password_form(visit, next_path, error=fault.message, status=401)
    except (RateLimited, Unavailable) as fault:
        wait = span(float(fault.retry_after_seconds))
        return _password_form(
            visit, next_path, flash=Flash("warn", fault.message, f"In {wait}."), status=status_of(fault)
        )
    return go_to(visit.desk, next_path)


def _password_form(
    visit: Visit, next_path: str, *, error: str = "", status: int = 200, flash: Flash | None = None
) -> Response:
    context: dict[str, object] = {
        "reason": "Before secrets change, your password is asked for once more. It counts for ten minutes.",
        "action": visit.here("confirm"),
        "leave": visit.here(f"confirm?{urlencode({'next': next_path})}"),
        "next": next_path,
        "back": visit.here("files"),
        "error": error,
    }
    return show(visit, "confirm_password.html", "", context, status=status, flash=flash)


async def _one(visit: Visit) -> ApiToken:
    token_id = visit.request.path_params["token_id"]
    for token in await api_tokens.list_of_account(visit.desk.services.access, visit.principal):
        if token.token_id == token_id:
            return token
    raise NotFound("There is no such token on this account.")


def _token_view(token: ApiToken, visit: Visit) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "name": token.name,
        "last_four": token.last_four,
        "created_at": token.created_at,
        "created_by": token.created_by_email,
        "last_used_at": token.last_used_at,
        "expires_at": token.expires_at,
        "state": _state(token, visit),
    }


def _state(token: ApiToken, visit: Visit) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is not None and token.expires_at <= visit.now:
        return "expired"
    return "active"
