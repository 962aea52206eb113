"""Handlers of Settings > Security."""

from __future__ import annotations

import dataclasses
import hmac

import msgspec.structs
from starlette.responses import Response

from daybreak.access import enrolment, passkeys, passwords, sessions
from daybreak.domain.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from daybreak.web.dashboard.browser_session import clear_session, raise_if_ended, replace_session_cookie
from daybreak.web.dashboard.form_ids import claimed_form
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, invalid_field, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.passkeys.view import passkeys_context
from daybreak.web.dashboard.password_prompt.handlers import prompt_or_raise
from daybreak.web.dashboard.rendering import redirect
from daybreak.web.dashboard.second_factor.enrolment import (
    enrolment_context,
    load_pending_enrolment,
    normalize_code,
    recovery_codes_context,
)
from daybreak.web.dashboard.security.view import security_context, session_reference, session_views

_PATH = "settings/security"
_SECOND_FACTOR_PATH = f"{_PATH}/second-factor"
_SIGN_OUT_PATH = f"{_PATH}/sign-out-everywhere"
_MAXIMUM_PASSWORD_LENGTH = 1025


async def show_security(page: PageRequest) -> Response:
    """Show password form, second factor and sessions."""
    return await _security_page(page)


async def change_password(page: PageRequest) -> Response:
    """Change the user's password."""
    form = await read_page_form(page)
    current, new, repeated = (form.get(name, "")[:_MAXIMUM_PASSWORD_LENGTH] for name in ("current", "new", "repeated"))
    if new != repeated:
        return await _security_page(page, invalid_field("repeated", "The passwords do not match."))
    access = page.dashboard.services.access
    try:
        session = await passwords.change_own(access, page.active_session, current=current, new=new, caller=page.caller)
    except InvalidRequest as error:
        return await _security_page(page, invalid_field("new", error.message))
    except (Unauthenticated, RateLimited, Unavailable, Conflict) as error:
        raise_if_ended(error)
        return await _security_page(page, rejected(error, "current"))
    response = _redirect(page, "password-changed")
    replace_session_cookie(page.dashboard, response, session)
    return response


async def show_second_factor(page: PageRequest) -> Response:
    """Show the pending setup of a second factor."""
    return await _second_factor_page(page)


async def start_second_factor(page: PageRequest) -> Response:
    """Start the setup of a new second factor. An existing one stays valid until the new one is confirmed."""
    await read_page_form(page)
    try:
        await enrolment.begin(page.dashboard.services.access, page.active_session)
    except Forbidden as error:
        return prompt_or_raise(page, error, _PATH)
    return redirect(page.dashboard, page.path(_SECOND_FACTOR_PATH))


async def confirm_second_factor(page: PageRequest) -> Response:
    """Confirm the setup with a code, and show the recovery codes once."""
    form = await read_page_form(page)
    code, access = normalize_code(form.get("code", "")), page.dashboard.services.access
    try:
        enrolled = await enrolment.confirm(access, page.active_session, code, page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, _PATH)
    except Conflict:
        # The form was sent twice; the first request has confirmed it.
        return _redirect(page, "factor-on")
    except (Unauthenticated, RateLimited, Unavailable) as error:
        raise_if_ended(error)
        return await _second_factor_page(page, rejected(error, "code"))
    # The forms of the page belong to the new session id.
    page = dataclasses.replace(page, resolved=msgspec.structs.replace(page.resolved, session=enrolled.session))
    response = _recovery_codes_page(page, enrolled.recovery_codes, replaced=False)
    replace_session_cookie(page.dashboard, response, enrolled.session)
    return response


async def replace_recovery_codes(page: PageRequest) -> Response:
    """Create new recovery codes, which invalidate the old ones, and show them once."""
    form = await read_page_form(page)
    access = page.dashboard.services.access
    try:
        sessions.require_recent_password(access, page.session)
        async with claimed_form(page, form.get("form_id", "")) as is_first:
            if not is_first:
                return _redirect(page, "codes-exist")
            codes = await enrolment.replace_recovery_codes(access, page.active_session, page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, _PATH)
    return _recovery_codes_page(page, codes, replaced=True)


async def end_session(page: PageRequest) -> Response:
    """End another session of the user."""
    await read_page_form(page)
    access, reference = page.dashboard.services.access, page.request.path_params["reference"]
    ended = False
    try:
        for session, _ in await sessions.list_open(access, page.active_session):
            if session.sid != page.session.sid and hmac.compare_digest(session_reference(page, session), reference):
                ended = await sessions.end_one(access, page.active_session, session.sid, page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, _PATH)
    return _redirect(page, "session-ended" if ended else "session-gone")


async def show_sign_out_form(page: PageRequest) -> Response:
    """Ask for confirmation before all sessions end, after the password prompt."""
    access = page.dashboard.services.access
    try:
        sessions.require_recent_password(access, page.session)
    except Forbidden as error:
        return prompt_or_raise(page, error, _SIGN_OUT_PATH)
    open_sessions = await sessions.list_open(access, page.active_session)
    context: dict[str, object] = {"sessions": await session_views(page, open_sessions)}
    return render_page(page, "security/sign_out_everywhere.html", "security", context)


async def sign_out_everywhere(page: PageRequest) -> Response:
    """End all sessions of the user, this one included."""
    await read_page_form(page)
    access = page.dashboard.services.access
    try:
        await sessions.end_others(access, page.active_session, page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, _SIGN_OUT_PATH)
    await sessions.logout(access, page.active_session, page.caller)
    response = redirect(page.dashboard, "/dashboard/sign-in?ended=everywhere")
    clear_session(page.dashboard, response)
    return response


def _redirect(page: PageRequest, done: str) -> Response:
    return redirect(page.dashboard, page.path(f"{_PATH}?done={done}"))


async def _security_page(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    services = page.dashboard.services
    codes_left = await services.state.aread(lambda stores: stores.seats.recovery_codes_left(page.seat.seat_id))
    open_sessions = await sessions.list_open(services.access, page.active_session)
    own_passkeys = await passkeys.list_of_seat(services.access, page.seat)
    context = security_context(page, codes_left, await session_views(page, open_sessions))
    context |= passkeys_context(page, own_passkeys)
    context |= _history(page, _PATH)
    return render_page(page, "security/page.html", "security", context, outcome)


async def _second_factor_page(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    enrolment = await load_pending_enrolment(page.dashboard, page.seat)
    if enrolment is None:
        return redirect(page.dashboard, page.path(_PATH))
    try:
        sessions.require_recent_password(page.dashboard.services.access, page.session)
    except Forbidden as error:
        # The seed is a secret: show it only after a recent password check.
        return prompt_or_raise(page, error, _SECOND_FACTOR_PATH)
    context = {**enrolment_context(enrolment), **_history(page, _SECOND_FACTOR_PATH)}
    return render_page(page, "security/second_factor.html", "security", context, outcome)


def _recovery_codes_page(page: PageRequest, codes: tuple[str, ...], *, replaced: bool) -> Response:
    context = {**recovery_codes_context(codes), **_history(page, _PATH), "replaced": replaced}
    return render_page(page, "security/recovery_codes.html", "security", context)


def _history(page: PageRequest, path: str) -> dict[str, object]:
    """Return the URL that the browser shows for a page rendered by a POST."""
    return {"history_url": page.url(path) if page.request.method == "POST" else ""}
