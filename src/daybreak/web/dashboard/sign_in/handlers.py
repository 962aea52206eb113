"""Handlers of sign-in, sign-out, the start page and the password prompt."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from daybreak.access import enrolment, sessions
from daybreak.access.accounts import granted_accounts
from daybreak.access.login import PENDING_LOGIN_LIFETIME, SecondFactorPending, SessionStarted, login, no_active_account
from daybreak.access.password_reset import is_available
from daybreak.access.sessions import REAUTHENTICATION_LIFETIME, reauthenticate
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import Forbidden, RateLimited, Unauthenticated, Unavailable
from daybreak.settings.text_forms import duration_in_words
from daybreak.web.dashboard.browser_session import (
    SecondFactorRequired,
    clear_session,
    device_id,
    find_session,
    form_binding,
    raise_if_ended,
    replace_session_cookie,
    session_id,
    set_form_cookie,
    set_session_cookie,
    set_sign_in_cookies,
)
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.forms import csrf_field, read_verified_form, safe_redirect_path
from daybreak.web.dashboard.outcome import SUCCESS, Flash, PageOutcome, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, default_account_id
from daybreak.web.dashboard.rendering import redirect, render_template
from daybreak.web.request_state import caller_of

_MAXIMUM_PASSWORD_LENGTH = 1024
_COOKIES_NEEDED = Flash("warn", "This page has expired.", "Sign in again. Your browser must accept cookies.")
_ENDED_MESSAGES = {
    "yes": Flash("warn", "Your session has ended.", "Sign in again."),
    "form": Flash("warn", "Your session has ended. Nothing was saved.", "Sign in to return to the form."),
    "everywhere": Flash("good", "Signed out everywhere."),
    "out": Flash("good", "Signed out."),
}
"""Messages by the value of the query parameter `ended`. `_ended_message` adds those of idle sessions."""


async def open_start_page(dashboard: DashboardContext, request: Request) -> Response:
    """Redirect to the files of the default account, or to sign-in."""
    resolved = await find_session(dashboard, request)
    if resolved is None:
        return redirect(dashboard, "/dashboard/sign-in")
    if resolved.session.awaiting_second_factor:
        raise SecondFactorRequired
    accounts = await granted_accounts(dashboard.services, resolved.seat.seat_id)
    client_id = default_account_id(resolved, accounts, dashboard.second_factor_policy)
    if client_id is not None:
        return redirect(dashboard, f"/dashboard/{client_id}/files")
    if any(entry.account.active for entry in accounts):
        raise Forbidden(
            "All your accounts require a second factor. Sign in again with yours.", code="second_factor_required"
        )
    raise no_active_account()


async def show_sign_in_form(dashboard: DashboardContext, request: Request) -> Response:
    """Ask for email and password. Redirect a user who is already signed in."""
    parameters = request.query_params
    next_path = safe_redirect_path(parameters.get("next"), fallback="")
    if "ended" not in parameters:
        resolved = await find_session(dashboard, request)
        if resolved is not None and not resolved.session.awaiting_second_factor:
            return redirect(dashboard, next_path or "/dashboard/")
    flash = _ended_message(dashboard, parameters.get("ended", ""))
    return _sign_in_page(dashboard, request, next_path=next_path, outcome=PageOutcome(flash=flash))


async def sign_in(dashboard: DashboardContext, request: Request) -> Response:
    """Check email and password."""
    binding = form_binding(dashboard, request)
    if binding is None:
        # The form cookie expires after an hour, or the browser rejects cookies.
        return _sign_in_page(dashboard, request, outcome=PageOutcome(403, flash=_COOKIES_NEEDED, code="cross_site"))
    form = await read_verified_form(dashboard, request, binding)
    email, next_path = form.get("email", "")[:MAX_EMAIL_LENGTH], safe_redirect_path(form.get("next"), fallback="")
    try:
        result = await login(
            dashboard.services,
            email=email,
            password=form.get("password", "")[:_MAXIMUM_PASSWORD_LENGTH],
            caller=caller_of(request),
            device_id=device_id(dashboard, request),
            kind="dashboard",
            held_sid=session_id(dashboard, request),
        )
    except (Unauthenticated, RateLimited, Unavailable) as error:
        outcome = rejected(error, "password")
        return _sign_in_page(dashboard, request, next_path=next_path, email=email, outcome=outcome)
    return await continue_sign_in(dashboard, result, next_path)


async def continue_sign_in(
    dashboard: DashboardContext, result: SessionStarted | SecondFactorPending, next_path: str
) -> Response:
    """Set the cookies of a started session, and redirect to `next_path` or to the second factor."""
    if isinstance(result, SessionStarted):
        response = redirect(dashboard, next_path or f"/dashboard/{result.client_id}/files")
        set_sign_in_cookies(dashboard, response, result)
        return response
    return await _continue_with_second_factor(dashboard, result, next_path)


async def sign_out(dashboard: DashboardContext, request: Request) -> Response:
    """End the session, even if it waits for its second factor."""
    resolved = await find_session(dashboard, request)
    if resolved is not None:
        session = resolved.session
        await read_verified_form(dashboard, request, session.sid)
        signed_in = sessions.ActiveSession(session, resolved.seat, "", session.device_id or "", resolved)
        await sessions.logout(dashboard.services, signed_in, caller_of(request))
    response = redirect(dashboard, "/dashboard/sign-in?ended=out")
    clear_session(dashboard, response)
    return response


def _ended_message(dashboard: DashboardContext, ended: str) -> Flash | None:
    if not ended.startswith("idle"):
        return _ENDED_MESSAGES.get(ended)
    limit = duration_in_words(dashboard.services.settings.access.dashboard_idle)
    text = "Nothing was saved. Sign in to return to the form." if ended == "idle-form" else "Sign in again."
    return Flash("warn", f"You were signed out after {limit} without activity.", text)


async def _continue_with_second_factor(
    dashboard: DashboardContext, pending: SecondFactorPending, next_path: str
) -> Response:
    services, path = dashboard.services, "/dashboard/second-factor"
    if not pending.enrolled:
        await enrolment.begin_required(services, pending.token)
        path = "/dashboard/enrol"
    query = f"?{urlencode({'next': next_path})}" if next_path else ""
    response = redirect(dashboard, path + query)
    lifetime_seconds = PENDING_LOGIN_LIFETIME.total_seconds()
    set_session_cookie(dashboard, response, pending.session.sid, lifetime_seconds)
    return response


def _sign_in_page(
    dashboard: DashboardContext,
    request: Request,
    *,
    next_path: str = "",
    email: str = "",
    outcome: PageOutcome = SUCCESS,
) -> Response:
    services = dashboard.services
    binding = form_binding(dashboard, request) or services.random(16).hex()
    context: dict[str, object] = {
        "csrf_field": lambda: csrf_field(dashboard, binding),
        "next": next_path,
        "email": email,
        "operator_contact": services.settings.operator_contact,
        "password_login": services.settings.oidc.password_login,
        "provider": provider_link(dashboard, "/dashboard/sign-in/oidc", next_path),
        "resets_passwords": is_available(services.settings),
    }
    response = render_template(dashboard, request, "sign_in/page.html", context, outcome)
    set_form_cookie(dashboard, response, binding)
    return response


@dataclass(frozen=True, slots=True)
class ProviderLink:
    """Name of the provider, and the URL that redirects to it."""

    name: str
    url: str


def provider_link(dashboard: DashboardContext, path: str, next_path: str) -> ProviderLink | None:
    """Return the link to a path that redirects to the provider, None if single sign-on is not configured."""
    settings = dashboard.services.settings.oidc
    if not settings.enabled:
        return None
    query = f"?{urlencode({'next': next_path})}" if next_path else ""
    return ProviderLink(settings.name, f"{dashboard.root}{path}{query}")


async def show_password_prompt(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Ask for the password."""
    settings, next_path = page.services.settings.oidc, _next_path(page)
    identities = await page.read(lambda stores: stores.identities.list_for(page.seat.seat_id))
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
    return render_page(page, "sign_in/password.html", context, outcome)


async def confirm_password(page: PageRequest) -> Response | PageOutcome:
    """Check the password and continue to the page that required it."""
    password = page.form.get("password", "")[:_MAXIMUM_PASSWORD_LENGTH]
    try:
        session = await reauthenticate(page.services, page.active_session, password, page.caller)
    except (Unauthenticated, RateLimited, Unavailable) as error:
        raise_if_ended(error)
        return rejected(error, "password")
    response = redirect(page.dashboard, _next_path(page))
    replace_session_cookie(page.dashboard, response, session)
    return response


def _next_path(page: PageRequest) -> str:
    return safe_redirect_path(page.fields.get("next"), fallback=page.path("files" if page.client_id else "runs"))
