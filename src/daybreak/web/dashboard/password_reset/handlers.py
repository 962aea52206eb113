"""Handlers of the pages that reset a forgotten password."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from daybreak.access import password_reset
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import Forbidden, InvalidRequest, RateLimited, Unauthenticated, Unavailable
from daybreak.web.dashboard.browser_session import device_id, form_binding, session_id, set_form_cookie
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.error_pages import no_account_text
from daybreak.web.dashboard.forms import csrf_field, read_verified_form
from daybreak.web.dashboard.outcome import SUCCESS, Flash, PageOutcome, invalid_field, rejected
from daybreak.web.dashboard.rendering import redirect, render_template
from daybreak.web.dashboard.sign_in.handlers import continue_sign_in
from daybreak.web.request_state import caller_of

_MAXIMUM_PASSWORD_LENGTH = 1025
_MAXIMUM_TOKEN_LENGTH = 100
_COOKIES_NEEDED = Flash("warn", "This page has expired.", "Send the form again. Your browser must accept cookies.")
_EXPIRED = PageOutcome(403, flash=_COOKIES_NEEDED, code="cross_site")


async def show_request_form(dashboard: DashboardContext, request: Request) -> Response:
    """Ask for the email of the seat."""
    return _request_page(dashboard, request)


async def request_reset(dashboard: DashboardContext, request: Request) -> Response:
    """Queue a mail with a link. The answer is the same whether or not the seat exists."""
    binding = form_binding(dashboard, request)
    if binding is None:
        return _request_page(dashboard, request, outcome=_EXPIRED)
    form = await read_verified_form(dashboard, request, binding)
    email = form.get("email", "")[:MAX_EMAIL_LENGTH]
    try:
        await password_reset.request_reset(dashboard.services, email=email, caller=caller_of(request))
    except (RateLimited, Unavailable) as error:
        return _request_page(dashboard, request, email, outcome=rejected(error, "email"))
    return redirect(dashboard, "/dashboard/forgot-password?sent=yes")


async def show_password_form(dashboard: DashboardContext, request: Request) -> Response:
    """Ask for the new password, if the link is valid. Opening the link does not use it up."""
    token = request.query_params.get("token", "")[:_MAXIMUM_TOKEN_LENGTH]
    return await _password_page(dashboard, request, token)


async def set_password(dashboard: DashboardContext, request: Request) -> Response:
    """Set the new password, and sign in: the second factor is asked for where the seat has one."""
    binding = form_binding(dashboard, request)
    if binding is None:
        return _request_page(dashboard, request, outcome=_EXPIRED)
    form = await read_verified_form(dashboard, request, binding)
    token = form.get("token", "")[:_MAXIMUM_TOKEN_LENGTH]
    new, repeated = (form.get(name, "")[:_MAXIMUM_PASSWORD_LENGTH] for name in ("new", "repeated"))
    if new != repeated:
        outcome = invalid_field("repeated", "The passwords do not match.")
        return await _password_page(dashboard, request, token, outcome)
    try:
        result = await password_reset.reset_password(
            dashboard.services,
            token,
            new,
            caller_of(request),
            device_id=device_id(dashboard, request),
            held_sid=session_id(dashboard, request),
        )
    except InvalidRequest as error:
        return await _password_page(dashboard, request, token, invalid_field("new", error.message))
    except Unauthenticated:
        return _expired_page(dashboard, request)
    except (RateLimited, Unavailable) as error:
        return await _password_page(dashboard, request, token, rejected(error, "new"))
    except Forbidden as error:
        if error.code != "no_active_account":
            raise
        return _password_set_page(dashboard, request)
    return await continue_sign_in(dashboard, result, "")


def _password_set_page(dashboard: DashboardContext, request: Request) -> Response:
    """Say that the password was set, and what a user without an active account can do."""
    sign_in = f"{dashboard.root}/dashboard/sign-in"
    context: dict[str, object] = {
        "heading": "Password set",
        "text": no_account_text(dashboard),
        "actions": [{"url": sign_in, "text": "Sign in"}],
        "history_url": sign_in,
        "request_id": "",
    }
    return render_template(dashboard, request, "layout/standalone_error.html", context, SUCCESS)


def _expired_page(dashboard: DashboardContext, request: Request) -> Response:
    flash = Flash("warn", "This link has expired or was used.", "Request a new one.")
    return _request_page(dashboard, request, outcome=PageOutcome(403, flash=flash, code="invalid_reset_link"))


def _request_page(
    dashboard: DashboardContext, request: Request, email: str = "", *, outcome: PageOutcome = SUCCESS
) -> Response:
    is_sent = request.method == "GET" and request.query_params.get("sent") == "yes"
    context = {
        "email": email,
        "is_sent": is_sent,
        "is_available": password_reset.is_available(dashboard.services.settings),
        "history_url": f"{dashboard.root}/dashboard/forgot-password" if request.method == "POST" else "",
    }
    return _page(dashboard, request, "password_reset/request.html", context, outcome)


async def _password_page(
    dashboard: DashboardContext, request: Request, token: str, outcome: PageOutcome = SUCCESS
) -> Response:
    seat = await password_reset.seat_of_link(dashboard.services, token)
    if seat is None:
        return _expired_page(dashboard, request)
    # The token leaves the address bar and the history.
    history_url = f"{dashboard.root}/dashboard/reset-password"
    context: dict[str, object] = {"token": token, "seat": seat, "history_url": history_url}
    return _page(dashboard, request, "password_reset/password.html", context, outcome)


def _page(
    dashboard: DashboardContext, request: Request, template: str, context: dict[str, object], outcome: PageOutcome
) -> Response:
    services = dashboard.services
    binding = form_binding(dashboard, request) or services.random(16).hex()
    contact = services.settings.operator_contact
    shared = {"csrf_field": lambda: csrf_field(dashboard, binding), "operator_contact": contact}
    response = render_template(dashboard, request, template, {**shared, **context}, outcome)
    set_form_cookie(dashboard, response, binding)
    return response
