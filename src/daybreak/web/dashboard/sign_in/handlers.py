"""Handlers of sign-in with a password or at a provider, sign-out, the start page and the password prompt."""

from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from daybreak.access import enrolment, sessions, single_sign_on
from daybreak.access.login import PENDING_LOGIN_LIFETIME, SecondFactorPending, SessionStarted, login, no_active_account
from daybreak.access.passwords import is_available
from daybreak.access.sessions import REAUTHENTICATION_LIFETIME, ActiveSession, reauthenticate
from daybreak.access.single_sign_on import Redirection, UnknownResponse, VerifiedResponse
from daybreak.credentials.passwords import FORM_LENGTH
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import Forbidden, RateLimited, Unauthenticated, Unavailable
from daybreak.settings import Settings
from daybreak.settings.text_forms import duration_in_words
from daybreak.web.dashboard.browser_session import (
    SecondFactorRequired,
    clear_cookie,
    clear_session,
    cookie_value,
    find_session,
    load_session,
    raise_if_ended,
    replace_session_cookie,
    set_cookie,
    set_sign_in_cookies,
    set_signed_cookie,
    signed_cookie,
)
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.forms import login_of, read_verified_form, render_public_form, safe_redirect_path
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, default_account
from daybreak.web.dashboard.rendering import SUCCESS, Flash, PageOutcome, redirect, rejected

_COOKIES_NEEDED = Flash("warn", "This page has expired.", "Sign in again. Your browser must accept cookies.")
_ENDED_MESSAGES = {
    "yes": Flash("warn", "Your session has ended.", "Sign in again."),
    "form": Flash("warn", "Your session has ended. Nothing was saved.", "Sign in to return to the form."),
    "everywhere": Flash("good", "Signed out everywhere."),
    "out": Flash("good", "Signed out."),
}
"""Messages by the value of the query parameter `ended`. `_ended_message` adds those of idle sessions."""
_PROVIDER_COOKIE = "oidc"
_PROVIDER_PARAMETERS = ("state", "code", "iss", "error")


async def open_start_page(page: DashboardRequest) -> Response:
    """Redirect to the files of the default account, or to sign-in."""
    resolved = await find_session(page)
    if resolved is None:
        return redirect(page, "/dashboard/sign-in")
    if resolved.session.awaiting_second_factor:
        raise SecondFactorRequired
    granted = await default_account(page.services, resolved)
    if granted is not None:
        return redirect(page, f"/dashboard/{granted.account.client_id}/files")
    if any(entry.account.active for entry in await page.services.granted_accounts(resolved.seat.seat_id)):
        raise Forbidden(
            "All your accounts require a second factor. Sign in again with yours.", code="second_factor_required"
        )
    raise no_active_account()


async def show_sign_in_form(page: DashboardRequest) -> Response:
    """Ask for email and password. Redirect a user who is already signed in."""
    parameters = page.request.query_params
    next_path = safe_redirect_path(parameters.get("next"), fallback="")
    if "ended" not in parameters:
        resolved = await find_session(page)
        if resolved is not None and not resolved.session.awaiting_second_factor:
            return redirect(page, next_path or "/dashboard/")
    flash = _ended_message(page.services.settings, parameters.get("ended", ""))
    return _sign_in_page(page, next_path=next_path, outcome=PageOutcome(flash=flash))


async def sign_in(page: DashboardRequest) -> Response:
    binding = signed_cookie(page, "form")
    if binding is None:
        # The form cookie expires after an hour, or the browser rejects cookies.
        return _sign_in_page(page, outcome=PageOutcome(403, flash=_COOKIES_NEEDED, code="cross_site"))
    form = await read_verified_form(page, binding)
    email, next_path = form.get("email", "")[:MAX_EMAIL_LENGTH], safe_redirect_path(form.get("next"), fallback="")
    try:
        result = await login(
            page.services,
            email=email,
            password=form.get("password", "")[:FORM_LENGTH],
            caller=page.caller,
            device_id=signed_cookie(page, "device"),
            kind="dashboard",
            held_sid=signed_cookie(page, "session"),
        )
    except (Unauthenticated, RateLimited, Unavailable) as error:
        outcome = rejected(error, "password")
        return _sign_in_page(page, next_path=next_path, email=email, outcome=outcome)
    return await continue_sign_in(page, result, next_path)


async def continue_sign_in(
    page: DashboardRequest, result: SessionStarted | SecondFactorPending, next_path: str
) -> Response:
    """Set the cookies of a started session, and redirect to `next_path` or to the second factor."""
    if isinstance(result, SessionStarted):
        response = redirect(page, next_path or f"/dashboard/{result.client_id}/files")
        set_sign_in_cookies(page, response, result)
        return response
    path = "/dashboard/second-factor"
    if not result.enrolled:
        await enrolment.begin_required(page.services, result.token)
        path = "/dashboard/enrol"
    response = redirect(page, path + (f"?{urlencode({'next': next_path})}" if next_path else ""))
    set_signed_cookie(page, response, "session", result.session.sid, PENDING_LOGIN_LIFETIME.total_seconds())
    return response


async def sign_out(page: DashboardRequest) -> Response:
    """End the session, even if it waits for its second factor."""
    resolved = await find_session(page)
    if resolved is not None:
        await read_verified_form(page, login_of(resolved.session))
        await sessions.logout(page.services, ActiveSession(resolved, ""), page.caller)
    response = redirect(page, "/dashboard/sign-in?ended=out")
    clear_session(page, response)
    return response


def _ended_message(settings: Settings, ended: str) -> Flash | None:
    if not ended.startswith("idle"):
        return _ENDED_MESSAGES.get(ended)
    limit = duration_in_words(settings.access.dashboard_idle)
    text = "Nothing was saved. Sign in to return to the form." if ended == "idle-form" else "Sign in again."
    return Flash("warn", f"You were signed out after {limit} without activity.", text)


def _sign_in_page(
    page: DashboardRequest, *, next_path: str = "", email: str = "", outcome: PageOutcome = SUCCESS
) -> Response:
    settings = page.services.settings
    context: dict[str, object] = {
        "next": next_path,
        "email": email,
        "password_login": settings.oidc.password_login,
        "provider": provider_link(page, "/dashboard/sign-in/oidc", next_path),
        "resets_passwords": is_available(settings),
    }
    return render_public_form(page, "sign_in/page.html", context, outcome)


def provider_link(page: DashboardRequest, path: str, next_path: str) -> dict[str, str] | None:
    """Return the link to a path that redirects to the provider, None if single sign-on is not configured."""
    settings = page.services.settings.oidc
    if not settings.enabled:
        return None
    query = f"?{urlencode({'next': next_path})}" if next_path else ""
    return {"name": settings.name, "url": f"{page.dashboard.root}{path}{query}"}


async def show_password_prompt(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    settings, next_path = page.services.settings.oidc, _next_path(page)
    identities = await page.read(lambda stores: stores.identities.list_for(page.seat.seat_id))
    offers_provider = not page.has_password or any(each.issuer == settings.issuer for each in identities)
    context: dict[str, object] = {
        "heading": f"Confirm your {'password' if page.has_password else 'identity'}",
        "text": f"Changing secrets requires {'your password' if page.has_password else 'a sign-in'}",
        "asks_password": page.has_password,
        "provider": provider_link(page, page.path("confirm/oidc"), next_path) if offers_provider else None,
        "history_url": page.url("confirm", next=next_path),
        "next": next_path,
        "prompt_url": page.url("confirm"),
        "cancel_url": page.url("files" if page.client_id else "runs"),
        "lifetime": REAUTHENTICATION_LIFETIME,
    }
    return render_page(page, "sign_in/password.html", context, outcome)


async def confirm_password(page: PageRequest) -> Response | PageOutcome:
    """Check the password and continue to the page that required it."""
    password = page.form.get("password", "")[:FORM_LENGTH]
    try:
        session = await reauthenticate(page.services, page.active_session, password, page.caller)
    except (Unauthenticated, RateLimited, Unavailable) as error:
        return rejected(error, "password")
    response = redirect(page, _next_path(page))
    replace_session_cookie(page, response, session)
    return response


def _next_path(page: PageRequest) -> str:
    return safe_redirect_path(page.fields.get("next"), fallback=page.path("files" if page.client_id else "runs"))


async def start_single_sign_on(page: DashboardRequest) -> Response:
    """Redirect to the provider."""
    next_path = safe_redirect_path(page.request.query_params.get("next"), fallback="")
    if _is_cross_site(page):
        # Another site must not start a sign-in without the user.
        return redirect(page, "/dashboard/sign-in")
    resolved = await find_session(page)
    if resolved is not None and not resolved.session.awaiting_second_factor:
        return redirect(page, next_path or "/dashboard/")
    return _redirect_to_provider(page, await single_sign_on.begin(page.services, next_path=next_path))


async def start_reauthentication(page: PageRequest) -> Response:
    """Redirect to the provider, which asks for the credentials again."""
    next_path = _next_path(page)
    if _is_cross_site(page):
        return redirect(page, next_path)
    begun = await single_sign_on.begin(page.services, next_path=next_path, active=page.active_session)
    return _redirect_to_provider(page, begun)


async def receive_provider_response(page: DashboardRequest) -> Response:
    """Check the response of the provider, and sign in or reauthenticate."""
    services, caller = page.services, page.caller
    cookie = cookie_value(page.request, _PROVIDER_COOKIE, secure=page.dashboard.secure)
    # The middleware refuses repeated parameters (RFC 6749 §3.1).
    query = page.request.query_params
    parameters = {name: query[name] for name in _PROVIDER_PARAMETERS if name in query}
    try:
        verified = await single_sign_on.verify_response(services, cookie, parameters, caller)
    except UnknownResponse:
        # The sign-in of another tab was faster, or this one is done and the user went back to it.
        if await find_session(page) is None:
            raise
        return redirect(page, "/dashboard/")
    if verified.request.sid is not None:
        response = await _reauthenticate(page, verified)
    else:
        result = await single_sign_on.sign_in(
            services, verified, caller, device_id=signed_cookie(page, "device"), held_sid=signed_cookie(page, "session")
        )
        response = await continue_sign_in(page, result, verified.request.next_path)
    clear_cookie(page, response, _PROVIDER_COOKIE)
    return response


async def _reauthenticate(page: DashboardRequest, verified: VerifiedResponse) -> Response:
    resolved = await load_session(page, verified.request.client_id)
    if resolved.session.awaiting_second_factor:
        raise SecondFactorRequired
    active = ActiveSession(resolved, verified.request.client_id)
    try:
        session = await single_sign_on.reauthenticate(page.services, active, verified, page.caller)
    except Unauthenticated as error:
        raise_if_ended(error)
        raise
    response = redirect(page, verified.request.next_path or "/dashboard/")
    replace_session_cookie(page, response, session)
    return response


def _redirect_to_provider(page: DashboardRequest, begun: Redirection) -> Response:
    response = RedirectResponse(begun.url, 303, {"Cache-Control": "no-store"})
    seconds = int(single_sign_on.REQUEST_LIFETIME.total_seconds())
    set_cookie(page, response, _PROVIDER_COOKIE, begun.cookie, seconds=seconds)
    return response


def _is_cross_site(page: DashboardRequest) -> bool:
    return page.request.headers.get("sec-fetch-site") == "cross-site"
