"""Settings > Security: password, second factor, recovery codes, sessions and devices."""

from __future__ import annotations

import hmac

from starlette.responses import Response

from daybreak.access import passwords, second_factor, sessions
from daybreak.credentials.passwords import MINIMUM_LENGTH
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest, RateLimited, Unauthenticated, Unavailable
from daybreak.domain.identity import Device, Session
from daybreak.web.dashboard.desk import Desk, go_to
from daybreak.web.dashboard.doorway import account_page
from daybreak.web.dashboard.enrolment import begun_enrolment, codes_context, enrolment_context
from daybreak.web.dashboard.presentation import agent, span
from daybreak.web.dashboard.session_cookie import clear_cookie
from daybreak.web.dashboard.tokens import first_time, to_confirm
from daybreak.web.dashboard.visit import Flash, Visit, read_post, show
from daybreak.web.problems import status_of
from daybreak.web.routing import Route, methods

_PAGE = "settings/security"
_SHOWN_ONCE = "They are shown now and never again."
_PASSWORD_HINT = f"At least {MINIMUM_LENGTH} characters; a few words that only you would put together are best."


def security_pages(desk: Desk) -> list[Route]:
    """The routes of a seat's own security, on this tab's account."""
    base = "/dashboard/{client_id}/settings/security"

    return [
        methods(base, GET=account_page(desk, _overview)),
        methods(f"{base}/password", POST=account_page(desk, _change_password, comes_back_to=_PAGE)),
        methods(
            f"{base}/second-factor",
            GET=account_page(desk, _ask_factor),
            POST=account_page(desk, _begin_factor, comes_back_to=_PAGE),
        ),
        methods(f"{base}/second-factor/confirm", POST=account_page(desk, _confirm_factor, comes_back_to=_PAGE)),
        methods(f"{base}/recovery-codes", POST=account_page(desk, _new_codes, comes_back_to=_PAGE)),
        methods(f"{base}/sessions/{{reference}}/end", POST=account_page(desk, _end_session, comes_back_to=_PAGE)),
        methods(f"{base}/sign-out-everywhere", POST=account_page(desk, _sign_out_everywhere, comes_back_to=_PAGE)),
    ]


async def _overview(visit: Visit) -> Response:
    return await _page(visit)


async def _page(
    visit: Visit, errors: dict[str, str] | None = None, *, status: int = 200, flash: Flash | None = None
) -> Response:
    services = visit.desk.services
    codes_left = await services.state.aread(lambda stores: stores.seats.recovery_codes_left(visit.seat.seat_id))
    open_sessions = await sessions.list_open(services.access, visit.who)
    context: dict[str, object] = {
        "errors": {"current": "", "new": "", "again": "", **(errors or {})},
        "leave": visit.here(_PAGE) if visit.request.method == "POST" else "",
        "password_hint": _PASSWORD_HINT,
        "codes_left": codes_left,
        "once": services.random(16).hex(),
        "sessions": [_session_view(visit, session, device) for session, device in open_sessions],
    }
    return show(visit, "security.html", "security", context, status=status, flash=flash)


async def _change_password(visit: Visit) -> Response:
    form = await read_post(visit)
    current, new, again = (form.get(name, "")[:1025] for name in ("current", "new", "again"))
    if new != again:
        return await _page(visit, {"again": "The two new passwords differ."}, status=400)
    try:
        await passwords.change_own(visit.desk.services.access, visit.who, current=current, new=new, caller=visit.caller)
    except InvalidRequest as fault:
        return await _page(visit, {"new": fault.message}, status=400)
    except Unauthenticated as fault:
        return await _page(visit, {"current": fault.message}, status=401)
    except (RateLimited, Unavailable, Conflict) as fault:
        return await _page(visit, status=status_of(fault), flash=_refused(fault))
    return go_to(visit.desk, visit.path(f"{_PAGE}?done=password-changed"))


async def _ask_factor(visit: Visit) -> Response:
    """The enrolment that was begun; back to the overview when there is none."""
    return await _factor_form(visit)


async def _begin_factor(visit: Visit) -> Response:
    await read_post(visit)
    try:
        await second_factor.begin_enrolment(visit.desk.services.access, visit.who)
    except Forbidden as fault:
        return _password_first(visit, fault)
    return go_to(visit.desk, visit.path(f"{_PAGE}/second-factor"))


async def _confirm_factor(visit: Visit) -> Response:
    form = await read_post(visit)
    code = "".join(form.get("code", "")[:64].split())
    try:
        enrolled = await second_factor.confirm_enrolment(visit.desk.services.access, visit.who, code, visit.caller)
    except Forbidden as fault:
        return _password_first(visit, fault)
    except Conflict:
        # The second of two clicks: the first one did it.
        return go_to(visit.desk, visit.path(f"{_PAGE}?done=factor-on"))
    except Unauthenticated as fault:
        return await _factor_form(visit, error=fault.message, status=401)
    except (RateLimited, Unavailable) as fault:
        return await _factor_form(visit, status=status_of(fault), flash=_refused(fault))
    lead = "Your second factor is on. When your phone is gone, each code lets you in once. " + _SHOWN_ONCE
    return show(
        visit,
        "security_codes.html",
        "security",
        {"lead": lead, "leave": visit.here(_PAGE), **codes_context(enrolled.recovery_codes)},
    )


async def _new_codes(visit: Visit) -> Response:
    form = await read_post(visit)
    access = visit.desk.services.access
    try:
        sessions.require_recent(access, visit.session)
        if not await first_time(visit, form.get("once", "")):
            return go_to(visit.desk, visit.path(f"{_PAGE}?done=codes-exist"))
        codes = await second_factor.new_recovery_codes(access, visit.who, visit.caller)
    except Forbidden as fault:
        return _password_first(visit, fault)
    lead = "Your earlier codes are void. Each of these lets you in once. " + _SHOWN_ONCE
    return show(
        visit, "security_codes.html", "security", {"lead": lead, "leave": visit.here(_PAGE), **codes_context(codes)}
    )


async def _end_session(visit: Visit) -> Response:
    await read_post(visit)
    access = visit.desk.services.access
    wanted = visit.request.path_params["reference"]
    ended = False
    for session, _ in await sessions.list_open(access, visit.who):
        if session.sid != visit.session.sid and hmac.compare_digest(_reference(visit, session), wanted):
            ended = await sessions.end_one(access, visit.who, session.sid, visit.caller)
    return go_to(visit.desk, visit.path(f"{_PAGE}?done={'session-ended' if ended else 'session-gone'}"))


async def _sign_out_everywhere(visit: Visit) -> Response:
    await read_post(visit)
    access = visit.desk.services.access
    await sessions.end_others(access, visit.who, visit.caller)
    await sessions.logout(access, visit.who, visit.caller)
    response = go_to(visit.desk, "/dashboard/sign-in?ended=everywhere")
    clear_cookie(response, "session", secure=visit.desk.secure)
    return response


async def _factor_form(visit: Visit, *, error: str = "", status: int = 200, flash: Flash | None = None) -> Response:
    enrolment = await begun_enrolment(visit.desk, visit.seat)
    if enrolment is None:
        return go_to(visit.desk, visit.path(_PAGE))
    try:
        sessions.require_recent(visit.desk.services.access, visit.session)
    except Forbidden as fault:
        # The seed is a secret: it is shown again only to whoever showed the password lately.
        return _password_first(visit, fault, f"{_PAGE}/second-factor")
    context: dict[str, object] = {
        **enrolment_context(enrolment),
        "error": error,
        "leave": visit.here(f"{_PAGE}/second-factor") if visit.request.method == "POST" else "",
    }
    return show(visit, "security_factor.html", "security", context, status=status, flash=flash)


def _password_first(visit: Visit, fault: Forbidden, back_to: str = _PAGE) -> Response:
    if fault.code != "reauthentication_required":
        raise fault
    return to_confirm(visit, visit.path(back_to))


def _session_view(visit: Visit, session: Session, device: Device | None) -> dict[str, object]:
    return {
        "reference": _reference(visit, session),
        "agent": agent(device.user_agent if device is not None else ""),
        "address": device.address if device is not None else "",
        "started_at": session.started_at,
        "expires_at": session.expires_at,
        "this": session.sid == visit.session.sid,
        "api": session.kind == "api",
    }


def _reference(visit: Visit, session: Session) -> str:
    """A name for a session that is good for this page alone: the sid itself stays inside."""
    return hmac.digest(visit.session.sid.encode(), session.sid.encode(), "sha256").hex()[:32]


def _refused(error: RateLimited | Unavailable | Conflict) -> Flash:
    if isinstance(error, Conflict):
        return Flash("warn", error.message)
    return Flash("warn", error.message, f"Try again in {span(float(error.retry_after_seconds))}.")
