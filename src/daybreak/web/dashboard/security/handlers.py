"""Handlers of Settings > Security."""

from __future__ import annotations

import dataclasses
import hmac

import msgspec.structs
from starlette.responses import Response

from daybreak.access import enrolment, passkeys, passwords, sessions
from daybreak.domain.errors import Conflict, InvalidRequest, RateLimited, Unauthenticated, Unavailable
from daybreak.web.dashboard.browser_session import clear_session, raise_if_ended, replace_session_cookie
from daybreak.web.dashboard.confirmation import Confirmation
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, invalid_field, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import redirect
from daybreak.web.dashboard.second_factor.handlers import (
    enrolment_context,
    load_pending_enrolment,
    normalize_code,
    recovery_codes_context,
)
from daybreak.web.dashboard.security.view import PASSWORD_HINT, session_reference, session_views

_PATH = "settings/security"
_MAXIMUM_PASSWORD_LENGTH = 1025


async def show_security(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Show password form, second factor, passkeys and sessions."""
    services = page.services
    codes_left = await services.state.aread(lambda stores: stores.seats.recovery_codes_left(page.seat.seat_id))
    open_sessions = await sessions.list_open(services, page.active_session)
    own = await passkeys.list_of_seat(services, page.seat)
    settings, available = services.settings, passkeys.are_available(services)
    context = {
        "has_password": settings.oidc.password_login and page.seat.password_hash is not None,
        "password_hint": PASSWORD_HINT,
        "codes_left": codes_left,
        "sessions": await session_views(page, open_sessions),
        "shows_locations": settings.access.location_database is not None,
        "passkeys": own,
        "passkeys_available": available,
        "maximum_passkeys": passkeys.MAX_PASSKEYS,
        "may_add_passkey": available and page.seat.second_factor_enrolled and len(own) < passkeys.MAX_PASSKEYS,
    }
    return render_page(page, "security/page.html", context, outcome)


async def change_password(page: PageRequest) -> Response | PageOutcome:
    names = ("current", "new", "repeated")
    current, new, repeated = (page.form.get(name, "")[:_MAXIMUM_PASSWORD_LENGTH] for name in names)
    if new != repeated:
        return invalid_field("repeated", "The passwords do not match.")
    services = page.services
    try:
        session = await passwords.change_own(
            services, page.active_session, current=current, new=new, caller=page.caller
        )
    except InvalidRequest as error:
        return invalid_field("new", error.message)
    except (Unauthenticated, RateLimited, Unavailable, Conflict) as error:
        raise_if_ended(error)
        return rejected(error, "current")
    response = page.redirect(_PATH, done="password-changed")
    replace_session_cookie(page, response, session)
    return response


async def start_second_factor(page: PageRequest) -> Response:
    """Start the setup of a new second factor. An existing one stays valid until the new one is confirmed."""
    await enrolment.begin(page.services, page.active_session)
    return page.redirect(f"{_PATH}/second-factor")


async def show_second_factor(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Show the pending setup of a second factor, with its seed."""
    pending = await load_pending_enrolment(page.services, page.seat)
    if pending is None:
        return page.redirect(_PATH)
    return render_page(page, "security/second_factor.html", enrolment_context(pending), outcome)


async def confirm_second_factor(page: PageRequest) -> Response | PageOutcome:
    """Confirm the setup with a code, and show the recovery codes once."""
    code, services = normalize_code(page.form.get("code", "")), page.services
    try:
        enrolled = await enrolment.confirm(services, page.active_session, code, page.caller)
    except Conflict:
        # The form was sent twice; the first request has confirmed it.
        return page.redirect(_PATH, done="factor-on")
    except (Unauthenticated, RateLimited, Unavailable) as error:
        raise_if_ended(error)
        return rejected(error, "code")
    # The forms of the page belong to the new session id.
    page = dataclasses.replace(page, resolved=msgspec.structs.replace(page.resolved, session=enrolled.session))
    response = _recovery_codes_page(page, enrolled.recovery_codes, replaced=False)
    replace_session_cookie(page, response, enrolled.session)
    return response


async def replace_recovery_codes(page: PageRequest) -> Response:
    """Create new recovery codes, which invalidate the old ones, and show them once."""
    codes = await enrolment.replace_recovery_codes(page.services, page.active_session, page.caller)
    return _recovery_codes_page(page, codes, replaced=True)


async def end_session(page: PageRequest) -> Response:
    """End another session of the user."""
    services, reference = page.services, page.request.path_params["reference"]
    ended = False
    for session, _ in await sessions.list_open(services, page.active_session):
        if session.sid != page.session.sid and hmac.compare_digest(session_reference(page, session), reference):
            ended = await sessions.end_one(services, page.active_session, session.sid, page.caller)
    return page.redirect(_PATH, done="session-ended" if ended else "session-gone")


async def confirm_sign_out(page: PageRequest) -> Confirmation:
    """Describe which sessions end."""
    views = await session_views(page, await sessions.list_open(page.services, page.active_session))
    return Confirmation(
        title="Sign out everywhere",
        text="Download links issued in these sessions stop working. API tokens stay valid.",
        ends=(("Sessions that end", [view.text for view in views]),),
        button="Sign out everywhere",
        cancel=_PATH,
    )


async def sign_out_everywhere(page: PageRequest) -> Response:
    """End all sessions of the user, this one included."""
    services = page.services
    await sessions.end_others(services, page.active_session, page.caller)
    await sessions.logout(services, page.active_session, page.caller)
    response = redirect(page, "/dashboard/sign-in?ended=everywhere")
    clear_session(page, response)
    return response


def _recovery_codes_page(page: PageRequest, codes: tuple[str, ...], *, replaced: bool) -> Response:
    context = {**recovery_codes_context(codes), "history_url": page.url(_PATH), "replaced": replaced}
    return render_page(page, "security/recovery_codes.html", context)
