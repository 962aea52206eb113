"""Handlers of the password prompt."""

from __future__ import annotations

from starlette.responses import Response

from daybreak.access.sessions import REAUTHENTICATION_LIFETIME, reauthenticate
from daybreak.domain.errors import RateLimited, Unauthenticated, Unavailable
from daybreak.web.dashboard.browser_session import raise_if_ended, replace_session_cookie
from daybreak.web.dashboard.forms import safe_redirect_path
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.provider_link import provider_link
from daybreak.web.dashboard.rendering import redirect

_MAXIMUM_PASSWORD_LENGTH = 1024


async def show_password_prompt(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Ask for the password."""
    settings, next_path = page.dashboard.services.settings.oidc, _next_path(page)
    identities = await page.dashboard.services.state.aread(lambda stores: stores.identities.list_for(page.seat.seat_id))
    asks_password = settings.password_login and page.seat.password_hash is not None
    offers_provider = not asks_password or any(each.issuer == settings.issuer for each in identities)
    context: dict[str, object] = {
        "heading": "Confirm your password" if asks_password else "Confirm your identity",
        "text": "Changing secrets requires your password" if asks_password else "Changing secrets requires a sign-in",
        "asks_password": asks_password,
        "provider": provider_link(page.dashboard, page.path("confirm/oidc"), next_path) if offers_provider else None,
        "history_url": page.url("confirm", next=next_path),
        "next": next_path,
        "prompt_url": page.url("confirm"),
        "cancel_url": page.url("files" if page.client_id else "runs"),
        "lifetime": REAUTHENTICATION_LIFETIME,
    }
    return render_page(page, "password_prompt/page.html", context, outcome)


async def confirm_password(page: PageRequest) -> Response | PageOutcome:
    """Check the password and continue to the page that required it."""
    password = page.form.get("password", "")[:_MAXIMUM_PASSWORD_LENGTH]
    try:
        session = await reauthenticate(page.dashboard.services, page.active_session, password, page.caller)
    except (Unauthenticated, RateLimited, Unavailable) as error:
        raise_if_ended(error)
        return rejected(error, "password")
    response = redirect(page.dashboard, _next_path(page))
    replace_session_cookie(page.dashboard, response, session)
    return response


def _next_path(page: PageRequest) -> str:
    return safe_redirect_path(page.fields.get("next"), fallback=page.path("files" if page.client_id else "runs"))
