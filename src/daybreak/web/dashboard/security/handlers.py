"""Handlers of Settings > Security: password, second factor, passkeys and sessions."""

import hmac
from dataclasses import dataclass

from starlette.responses import Response

from daybreak.access import enrolment, passkeys, passwords, sessions
from daybreak.credentials.keyring import mac_of
from daybreak.credentials.passwords import FORM_LENGTH, MINIMUM_LENGTH
from daybreak.domain.errors import Conflict, InvalidRequest, NotFound, RateLimited, Unauthenticated, Unavailable
from daybreak.domain.identity import Device, Passkey, Session
from daybreak.web.dashboard.browser_session import clear_session, replace_session_cookie
from daybreak.web.dashboard.formatting import format_user_agent
from daybreak.web.dashboard.forms import login_of
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import Slice, requested_page, slice_at, start_of_page
from daybreak.web.dashboard.rendering import SUCCESS, PageOutcome, invalid_field, redirect, rejected
from daybreak.web.dashboard.second_factor.handlers import (
    enrolment_context,
    explain_restart,
    load_pending_enrolment,
    recovery_codes_context,
)
from daybreak.web.dashboard.security.locations import locations_of

_PATH = "settings/security"
_MAXIMUM_NAME_LENGTH = 100
# Scripts that sign in and never sign out have thousands.
_SESSIONS = 20
_PASSWORD_HINT = f"At least {MINIMUM_LENGTH} characters. Several unrelated words work well."


async def show_security(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Show password form, second factor, passkeys and sessions."""
    services = page.services
    codes_left = await services.state.aread(lambda stores: stores.seats.recovery_codes_left(page.seat.seat_id))
    open_sessions = await sessions.list_open(services, page.active_session)
    own = await passkeys.list_of_seat(services, page.seat)
    settings, available = services.settings, passkeys.are_available(services)
    context = {
        "has_password": page.has_password,
        "password_hint": _PASSWORD_HINT,
        "codes_left": codes_left,
        "sessions": await session_views(page, open_sessions, _PATH),
        "shows_locations": settings.access.location_database is not None,
        "passkeys": own,
        "passkeys_available": available,
        "maximum_passkeys": passkeys.MAX_PASSKEYS,
        "may_add_passkey": available and page.seat.second_factor_enrolled and len(own) < passkeys.MAX_PASSKEYS,
    }
    return render_page(page, "security/page.html", context, outcome)


async def change_password(page: PageRequest) -> Response | PageOutcome:
    names = ("current", "new", "repeated")
    current, new, repeated = (page.form.get(name, "")[:FORM_LENGTH] for name in names)
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
    outcome = explain_restart(outcome, pending, page.form.get("setup", ""))
    return render_page(page, "security/second_factor.html", enrolment_context(pending), outcome)


async def confirm_second_factor(page: PageRequest) -> Response | PageOutcome:
    """Confirm the setup with a code, and show the recovery codes once."""
    code, services = page.form.get("code", ""), page.services
    try:
        enrolled = await enrolment.confirm(services, page.active_session, code, page.caller)
    except Conflict:
        # The form was sent twice; the first request has confirmed it.
        return page.redirect(_PATH, done="factor-on")
    except (Unauthenticated, RateLimited, Unavailable) as error:
        return rejected(error, "code")
    response = _recovery_codes_page(page, enrolled.recovery_codes, replaced=False)
    replace_session_cookie(page, response, enrolled.session)
    return response


async def load_recovery_codes(page: PageRequest) -> dict[str, object] | Response:
    """Return the variables of the page that asks to confirm that the recovery codes are replaced."""
    if not page.seat.second_factor_enrolled:
        return page.redirect(_PATH)
    return {"codes_left": await page.read(lambda stores: stores.seats.recovery_codes_left(page.seat.seat_id))}


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


async def load_sessions(page: PageRequest) -> dict[str, object]:
    """Return the variables of the page that asks to confirm the end of all sessions."""
    open_sessions = await sessions.list_open(page.services, page.active_session)
    return {"sessions": await session_views(page, open_sessions, _PATH)}


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


@dataclass(frozen=True, slots=True)
class SessionView:
    """An open session. `reference` names it in this login only: the page does not reveal session ids."""

    session: Session
    reference: str
    agent: str
    address: str
    location: str
    current: bool


async def session_views(
    page: PageRequest, sessions: list[tuple[Session, Device | None]], path: str
) -> Slice[SessionView]:
    """Return a page of the open sessions of a seat, the current one first. `path` is the page that lists them."""
    current_first = sorted(sessions, key=lambda each: each[0].sid != page.session.sid)
    start = start_of_page(requested_page(page), len(sessions), _SESSIONS)
    shown = current_first[start : start + _SESSIONS]
    addresses = [device.address for _, device in shown if device is not None]
    database = page.services.settings.access.location_database
    # The database may be on a slow disk.
    locations = await page.services.threads.run(page.seat.seat_id, lambda: locations_of(database, addresses))
    views = []
    for session, device in shown:
        address, user_agent = (device.address, device.user_agent) if device is not None else ("", "")
        agent, is_current = format_user_agent(user_agent), session.sid == page.session.sid
        reference = session_reference(page, session)
        views.append(SessionView(session, reference, agent, address, locations.get(address, ""), is_current))
    return slice_at(views, start, len(sessions), _SESSIONS, lambda number: page.url(path, page=number))


def session_reference(page: PageRequest, session: Session) -> str:
    """Return a name for a session that is valid in this login only."""
    return mac_of(login_of(page.session).encode(), session.sid)[:32]


async def show_new_passkey_form(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    available = passkeys.are_available(page.services)
    if not available or not page.seat.second_factor_enrolled:
        # The list explains why.
        return page.redirect(_PATH)
    return render_page(page, "security/new_passkey.html", {"name": _name(page, "")}, outcome)


async def issue_passkey_options(page: PageRequest) -> Response:
    """Return the options with which the browser creates a passkey, as JSON."""
    options = await passkeys.begin_adding(page.services, page.active_session)
    return Response(options, media_type="application/json")


async def add_passkey(page: PageRequest) -> Response | PageOutcome:
    """Add the passkey that the browser created."""
    services, response = page.services, page.form.get("response", "")
    try:
        await passkeys.add(services, page.active_session, name=_name(page, ""), response=response, caller=page.caller)
    except (InvalidRequest, Conflict) as error:
        return rejected(error, "name")
    except Unauthenticated as error:
        return rejected(error, "passkey")
    return page.redirect(_PATH, done="passkey-added")


async def show_passkey_form(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    passkey = await _requested_passkey(page)
    context: dict[str, object] = {"passkey": passkey, "name": _name(page, passkey.name)}
    return render_page(page, "security/rename_passkey.html", context, outcome)


async def rename_passkey(page: PageRequest) -> Response | PageOutcome:
    passkey, services = await _requested_passkey(page), page.services
    try:
        await passkeys.rename(services, page.active_session, passkey, _name(page, ""), page.caller)
    except InvalidRequest as error:
        return rejected(error, "name")
    return page.redirect(_PATH, done="passkey-renamed")


async def load_passkey(page: PageRequest) -> dict[str, object]:
    """Return the variables of the page that asks to confirm the removal of a passkey."""
    return {"passkey": await _requested_passkey(page)}


async def remove_passkey(page: PageRequest) -> Response:
    services = page.services
    try:
        removed = await passkeys.remove(services, page.active_session, await _requested_passkey(page), page.caller)
    except NotFound:
        # The form was sent twice; the first request has removed it.
        removed = False
    return page.redirect(_PATH, done="passkey-removed" if removed else "passkey-gone")


def _name(page: PageRequest, default: str) -> str:
    return page.fields.get("name", default)[:_MAXIMUM_NAME_LENGTH]


async def _requested_passkey(page: PageRequest) -> Passkey:
    services, reference = page.services, page.request.path_params["reference"]
    return await passkeys.find(services, page.seat, reference)
