"""Handlers of the password prompt."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access.sessions import REAUTHENTICATION_LIFETIME, reauthenticate
from daybreak.domain.errors import Forbidden, RateLimited, Unauthenticated, Unavailable
from daybreak.web.dashboard.browser_session import raise_if_ended, replace_session_cookie
from daybreak.web.dashboard.forms import safe_redirect_path
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.provider_link import provider_link
from daybreak.web.dashboard.rendering import redirect

_MAXIMUM_PASSWORD_LENGTH = 1024


def redirect_to_password_prompt(page: PageRequest, next_path: str) -> Response:
    """Redirect to the password prompt, which continues to `next_path` of this account."""
    return redirect(page.dashboard, _prompt_path(page, page.path(next_path)))


def prompt_or_raise(page: PageRequest, error: Forbidden, next_path: str) -> Response:
    """Redirect to the password prompt if the error asks for the password; raise any other error."""
    if error.code != "reauthentication_required":
        raise error
    return redirect_to_password_prompt(page, next_path)


async def show_password_prompt(page: PageRequest) -> Response:
    """Ask for the password."""
    return await _prompt_page(page, _next_path(page, page.request.query_params.get("next")))


async def confirm_password(page: PageRequest) -> Response:
    """Check the password and continue to the page that required it."""
    form = await read_page_form(page)
    next_path = _next_path(page, form.get("next"))
    password = form.get("password", "")[:_MAXIMUM_PASSWORD_LENGTH]
    try:
        session = await reauthenticate(page.dashboard.services.access, page.active_session, password, page.caller)
    except (Unauthenticated, RateLimited, Unavailable) as error:
        raise_if_ended(error)
        return await _prompt_page(page, next_path, rejected(error, "password"))
    response = redirect(page.dashboard, next_path)
    replace_session_cookie(page.dashboard, response, session)
    return response


async def _prompt_page(page: PageRequest, next_path: str, outcome: PageOutcome = SUCCESS) -> Response:
    settings = page.dashboard.services.settings.oidc
    identities = await page.dashboard.services.state.aread(lambda stores: stores.identities.list_for(page.seat.seat_id))
    asks_password = settings.password_login and page.seat.password_hash is not None
    offers_provider = not asks_password or any(each.issuer == settings.issuer for each in identities)
    context: dict[str, object] = {
        "heading": "Confirm your password" if asks_password else "Confirm your identity",
        "text": "Changing secrets requires your password" if asks_password else "Changing secrets requires a sign-in",
        "asks_password": asks_password,
        "provider": provider_link(page.dashboard, page.path("confirm/oidc"), next_path) if offers_provider else None,
        "history_url": page.dashboard.root + _prompt_path(page, next_path),
        "next": next_path,
        "prompt_url": page.url("confirm"),
        "cancel_url": page.url("files" if page.client_id else "runs"),
        "lifetime": REAUTHENTICATION_LIFETIME,
    }
    return render_page(page, "password_prompt/page.html", "", context, outcome)


def _prompt_path(page: PageRequest, next_path: str) -> str:
    return page.path(f"confirm?{urlencode({'next': next_path})}")


def _next_path(page: PageRequest, text: str | None) -> str:
    return safe_redirect_path(text, fallback=page.path("files" if page.client_id else "runs"))
