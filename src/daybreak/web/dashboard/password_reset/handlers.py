"""Handlers of the pages that reset a forgotten password."""

from starlette.responses import Response

from daybreak.access import passwords
from daybreak.credentials.passwords import FORM_LENGTH
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import Forbidden, InvalidRequest, RateLimited, Unauthenticated, Unavailable
from daybreak.web.dashboard.browser_session import signed_cookie
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.error_pages import no_account_text
from daybreak.web.dashboard.forms import read_verified_form, render_public_form
from daybreak.web.dashboard.rendering import (
    SUCCESS,
    Flash,
    PageOutcome,
    invalid_field,
    redirect,
    rejected,
    render_template,
)
from daybreak.web.dashboard.sign_in.handlers import continue_sign_in

_MAXIMUM_TOKEN_LENGTH = 100
_COOKIES_NEEDED = Flash("warn", "This page has expired.", "Send the form again. Your browser must accept cookies.")
_EXPIRED = PageOutcome(403, flash=_COOKIES_NEEDED, code="cross_site")


async def request_reset(page: DashboardRequest) -> Response:
    """Queue a mail with a link. The answer is the same whether or not the seat exists."""
    binding = signed_cookie(page, "form")
    if binding is None:
        return await show_request_form(page, outcome=_EXPIRED)
    form = await read_verified_form(page, binding)
    email = form.get("email", "")[:MAX_EMAIL_LENGTH]
    try:
        await passwords.request_reset(page.services, email=email, caller=page.caller)
    except (RateLimited, Unavailable) as error:
        return await show_request_form(page, email, outcome=rejected(error, "email"))
    return redirect(page, "/dashboard/forgot-password?sent=yes")


async def show_password_form(page: DashboardRequest) -> Response:
    """Ask for the new password, if the link is valid. Opening the link does not use it up."""
    token = page.request.query_params.get("token", "")[:_MAXIMUM_TOKEN_LENGTH]
    return await _password_page(page, token)


async def set_password(page: DashboardRequest) -> Response:
    """Set the new password, and sign in: the second factor is asked for where the seat has one."""
    binding = signed_cookie(page, "form")
    if binding is None:
        return await show_request_form(page, outcome=_EXPIRED)
    form = await read_verified_form(page, binding)
    token = form.get("token", "")[:_MAXIMUM_TOKEN_LENGTH]
    new, repeated = (form.get(name, "")[:FORM_LENGTH] for name in ("new", "repeated"))
    if new != repeated:
        outcome = invalid_field("repeated", "The passwords do not match.")
        return await _password_page(page, token, outcome)
    try:
        result = await passwords.reset_password(
            page.services,
            token,
            new,
            page.caller,
            device_id=signed_cookie(page, "device"),
            held_sid=signed_cookie(page, "session"),
        )
    except InvalidRequest as error:
        return await _password_page(page, token, invalid_field("new", error.message))
    except Unauthenticated:
        return await _expired_page(page, token)
    except (RateLimited, Unavailable) as error:
        return await _password_page(page, token, rejected(error, "new"))
    except Forbidden as error:
        if error.code != "no_active_account":
            raise
        return _password_set_page(page)
    return await continue_sign_in(page, result, "")


def _password_set_page(page: DashboardRequest) -> Response:
    """Say that the password was set, and what a user without an active account can do."""
    sign_in = f"{page.dashboard.root}/dashboard/sign-in"
    context: dict[str, object] = {
        "heading": "Password set",
        "text": no_account_text(page.services.settings),
        "actions": [{"url": sign_in, "text": "Sign in"}],
        "history_url": sign_in,
        "request_id": "",
    }
    return render_template(page, "layout/standalone_error.html", context, SUCCESS)


async def _expired_page(page: DashboardRequest, token: str) -> Response:
    # The page with the form removes the token from its URL, so a reload has none.
    title = "This link has expired or was used." if token else "This page needs its link."
    flash = Flash("warn", title, "Request a new one." if token else "Open the link again, or request a new one.")
    return await show_request_form(page, outcome=PageOutcome(403, flash=flash, code="invalid_reset_link"))


async def show_request_form(page: DashboardRequest, email: str = "", *, outcome: PageOutcome = SUCCESS) -> Response:
    """Ask for the email of the seat."""
    is_post = page.request.method == "POST"
    context = {
        "email": email,
        "is_sent": not is_post and page.request.query_params.get("sent") == "yes",
        "is_available": passwords.is_available(page.services.settings),
        "history_url": f"{page.dashboard.root}/dashboard/forgot-password" if is_post else "",
    }
    return render_public_form(page, "password_reset/request.html", context, outcome)


async def _password_page(page: DashboardRequest, token: str, outcome: PageOutcome = SUCCESS) -> Response:
    seat = await passwords.seat_of_link(page.services, token)
    if seat is None:
        return await _expired_page(page, token)
    # The token leaves the address bar and the history.
    history_url = f"{page.dashboard.root}/dashboard/reset-password"
    context: dict[str, object] = {"token": token, "seat": seat, "history_url": history_url}
    return render_public_form(page, "password_reset/password.html", context, outcome)
