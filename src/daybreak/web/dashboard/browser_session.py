"""Sessions of browsers: their cookies, and their lookup in the state database."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.authorization import is_idle, session_fault
from daybreak.access.login import SessionStarted
from daybreak.access.session_activity import IDLE, end_idle
from daybreak.domain.errors import DaybreakError, Unauthenticated
from daybreak.domain.identity import ResolvedSession, Session
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.session_cookie import FORM_COOKIE_SECONDS, clear_cookie, read_cookie, set_cookie
from daybreak.web.request_state import caller_of, record_subject

_DEVICE_COOKIE_SECONDS = 365 * 86400


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


async def load_session(dashboard: DashboardContext, request: Request, client_id: str | None = None) -> ResolvedSession:
    """Return the dashboard session of the request's cookie, which may still wait for its second factor.

    With a `client_id`, the result includes that account and the seat's grant on it.
    Raises SignInRequired.
    """
    sid = session_id(dashboard, request)
    if sid is None:
        raise SignInRequired(had_session=False)
    resolved = await dashboard.services.state.aread(lambda stores: stores.sessions.resolve(sid, client_id))
    now, limit = dashboard.services.clock(), dashboard.services.settings.access.dashboard_idle
    fault = session_fault(resolved, now, dashboard_idle=limit)
    if resolved is None or resolved.session.kind != "dashboard":
        raise SignInRequired(had_session=True)
    if isinstance(fault, Unauthenticated):
        session = resolved.session
        idle = session.ended_at is None and is_idle(session, now, dashboard_idle=limit)
        if idle:
            await end_idle(dashboard.services, resolved, caller_of(request), now)
        raise SignInRequired(had_session=True, idle=idle or session.end_reason == IDLE)
    record_subject(request, f"session:{sid}")
    return resolved


async def find_session(dashboard: DashboardContext, request: Request) -> ResolvedSession | None:
    """Return the dashboard session of the request's cookie, or None if it is not valid."""
    try:
        return await load_session(dashboard, request)
    except SignInRequired:
        return None


def session_id(dashboard: DashboardContext, request: Request) -> str | None:
    """Return the session id of the request's cookie. The session may have ended."""
    return _read(dashboard, request, "session")


def device_id(dashboard: DashboardContext, request: Request) -> str | None:
    """Return the device id of the request's cookie."""
    return _read(dashboard, request, "device")


def form_binding(dashboard: DashboardContext, request: Request) -> str | None:
    """Return the value that binds the sign-in form to this browser before there is a session."""
    return _read(dashboard, request, "form")


def set_form_cookie(dashboard: DashboardContext, response: Response, binding: str) -> None:
    """Set the cookie that binds the sign-in form."""
    _set(dashboard, response, "form", binding, FORM_COOKIE_SECONDS)


def set_session_cookie(dashboard: DashboardContext, response: Response, sid: str, seconds: float) -> None:
    """Set the session cookie."""
    _set(dashboard, response, "session", sid, int(seconds))


def set_sign_in_cookies(dashboard: DashboardContext, response: Response, started: SessionStarted) -> None:
    """Set the session and device cookies of a completed sign-in; clear the form cookie."""
    lifetime = dashboard.services.settings.access.session_lifetime
    set_session_cookie(dashboard, response, started.session.sid, lifetime.total_seconds())
    _set(dashboard, response, "device", started.device_id, _DEVICE_COOKIE_SECONDS)
    clear_cookie(response, "form", secure=dashboard.secure)


def replace_session_cookie(dashboard: DashboardContext, response: Response, session: Session) -> None:
    """Set the session cookie of a session that got a new id. It expires when the session does."""
    remaining = session.expires_at - dashboard.services.clock()
    set_session_cookie(dashboard, response, session.sid, remaining.total_seconds())


def clear_session(dashboard: DashboardContext, response: Response) -> None:
    """Clear the session cookie, and what the browser has stored of the pages.

    `"cache"` includes pages that the Back button would show. The device cookie stays: it identifies a known device.
    """
    clear_cookie(response, "session", secure=dashboard.secure)
    response.headers["Clear-Site-Data"] = '"cache", "storage"'


def _read(dashboard: DashboardContext, request: Request, kind: str) -> str | None:
    keyring = dashboard.services.keyring.current()
    return read_cookie(request, kind, secure=dashboard.secure, keyring=keyring)


def _set(dashboard: DashboardContext, response: Response, kind: str, payload: str, seconds: int) -> None:
    keyring = dashboard.services.keyring.current()
    set_cookie(response, kind, payload, secure=dashboard.secure, keyring=keyring, seconds=seconds)
