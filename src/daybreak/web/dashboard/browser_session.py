"""Sessions of browsers: their signed cookies, and their lookup in the state database.

A guessed or altered value of a cookie is rejected without a database query.
"""

from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.authorization import is_idle, session_fault
from daybreak.access.login import SessionStarted
from daybreak.access.sessions import IDLE, end_idle
from daybreak.credentials import signed_text
from daybreak.credentials.keyring import Purpose
from daybreak.domain.errors import DaybreakError, Unauthenticated
from daybreak.domain.identity import ResolvedSession, Session
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.request_state import record_subject

_DEVICE_COOKIE_SECONDS = 365 * 86400
FORM_COOKIE_SECONDS = 3600
_PURPOSE: Purpose = "dashboard-cookie"


class SignInRequired(Exception):
    """The request has no session (`had_session` is false), or one that has ended, `idle` if without activity."""

    def __init__(self, *, had_session: bool, idle: bool = False) -> None:
        super().__init__("sign in")
        self.had_session = had_session
        self.idle = idle


class SecondFactorRequired(Exception):
    """The session waits for its second factor."""


class AlreadySignedIn(Exception):
    """The sign-in is complete: its form was sent twice, or the user pressed the back button."""


def raise_if_ended(error: DaybreakError) -> None:
    """Raise SignInRequired if the session ended during the request."""
    if error.code == "session_ended":
        raise SignInRequired(had_session=True) from None


async def load_session(page: DashboardRequest, client_id: str | None = None) -> ResolvedSession:
    """Return the dashboard session of the request's cookie, which may still wait for its second factor.

    With a `client_id`, the result includes that account and the seat's grant on it.
    Raises SignInRequired.
    """
    sid, services = signed_cookie(page, "session"), page.services
    if sid is None:
        raise SignInRequired(had_session=False)
    resolved = await services.state.aread(lambda stores: stores.sessions.resolve(sid, client_id))
    now, limit = services.clock(), services.settings.access.dashboard_idle
    fault = session_fault(resolved, now, dashboard_idle=limit)
    if resolved is None or resolved.session.kind != "dashboard":
        raise SignInRequired(had_session=True)
    if isinstance(fault, Unauthenticated):
        session = resolved.session
        idle = session.ended_at is None and is_idle(session, now, dashboard_idle=limit)
        if idle:
            await end_idle(services, resolved, page.caller, now)
        raise SignInRequired(had_session=True, idle=idle or session.end_reason == IDLE)
    record_subject(page.request, f"session:{sid}")
    return resolved


async def find_session(page: DashboardRequest) -> ResolvedSession | None:
    """Return the dashboard session of the request's cookie, or None if it is not valid."""
    try:
        return await load_session(page)
    except SignInRequired:
        return None


def signed_cookie(page: DashboardRequest, kind: Literal["session", "device", "form"]) -> str | None:
    """Return the value of a signed cookie: session id, device id, or what binds the sign-in form to the browser.

    The session may have ended.
    """
    value = cookie_value(page.request, kind, secure=page.dashboard.secure) or ""
    return signed_text.verify(value, kind, purpose=_PURPOSE, keyring=page.services.keyring.current())


def set_sign_in_cookies(page: DashboardRequest, response: Response, started: SessionStarted) -> None:
    """Set the session and device cookies of a completed sign-in; clear the form cookie."""
    lifetime = page.services.settings.access.session_lifetime
    set_signed_cookie(page, response, "session", started.session.sid, lifetime.total_seconds())
    set_signed_cookie(page, response, "device", started.device_id, _DEVICE_COOKIE_SECONDS)
    clear_cookie(page, response, "form")


def replace_session_cookie(page: DashboardRequest, response: Response, session: Session) -> None:
    """Set the session cookie of a session that got a new id. It expires when the session does."""
    remaining = session.expires_at - page.services.clock()
    set_signed_cookie(page, response, "session", session.sid, remaining.total_seconds())


def clear_session(page: DashboardRequest, response: Response) -> None:
    """Clear the session cookie, and what the browser has stored of the pages.

    `"cache"` includes pages that the Back button would show. The device cookie stays: it identifies a known device.
    """
    clear_cookie(page, response, "session")
    response.headers["Clear-Site-Data"] = '"cache", "storage"'


def set_signed_cookie(page: DashboardRequest, response: Response, kind: str, payload: str, seconds: float) -> None:
    value = signed_text.sign(payload, kind, purpose=_PURPOSE, keyring=page.services.keyring.current())
    set_cookie(page, response, kind, value, seconds=int(seconds))


def cookie_name(kind: str, *, secure: bool) -> str:
    """Return the cookie's name, over https with the prefix `__Host-` (RFC 6265bis §4.1.3.2).

    Browsers reject the prefix over plain http, which is allowed on the loopback only.
    """
    return f"__Host-daybreak-{kind}" if secure else f"daybreak-{kind}"


def cookie_value(request: Request, kind: str, *, secure: bool) -> str | None:
    """Return the value of the request's cookie, or None unless exactly one such cookie was sent."""
    name = cookie_name(kind, secure=secure)
    # http.cookies takes quadratic time for quoted values before Python 3.11.10 (CVE-2024-7592). Ours are not quoted.
    pairs = [pair.partition("=") for field in request.headers.getlist("cookie") for pair in field.split(";")]
    values = [value.strip() for key, _, value in pairs if key.strip() == name]
    return values[0] if len(values) == 1 else None


def set_cookie(page: DashboardRequest, response: Response, kind: str, value: str, *, seconds: int) -> None:
    """Set the cookie: HttpOnly, SameSite=Lax, for the whole host."""
    secure = page.dashboard.secure
    name = cookie_name(kind, secure=secure)
    response.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")


def clear_cookie(page: DashboardRequest, response: Response, kind: str) -> None:
    secure = page.dashboard.secure
    response.delete_cookie(cookie_name(kind, secure=secure), path="/", secure=secure, httponly=True, samesite="lax")
