"""Sessions of browsers: their cookies, and their lookup in the state database."""

from __future__ import annotations

from typing import Literal

from starlette.responses import Response

from daybreak.access.authorization import is_idle, session_fault
from daybreak.access.login import SessionStarted
from daybreak.access.sessions import IDLE, end_idle
from daybreak.domain.errors import DaybreakError, Unauthenticated
from daybreak.domain.identity import ResolvedSession, Session
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.session_cookie import FORM_COOKIE_SECONDS, clear_cookie, read_cookie, seal, set_cookie_value
from daybreak.web.request_state import record_subject

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
    return read_cookie(page.request, kind, secure=page.dashboard.secure, keyring=page.services.keyring.current())


def set_form_cookie(page: DashboardRequest, response: Response, binding: str) -> None:
    """Set the cookie that binds the sign-in form."""
    _set(page, response, "form", binding, FORM_COOKIE_SECONDS)


def set_session_cookie(page: DashboardRequest, response: Response, sid: str, seconds: float) -> None:
    _set(page, response, "session", sid, int(seconds))


def set_sign_in_cookies(page: DashboardRequest, response: Response, started: SessionStarted) -> None:
    """Set the session and device cookies of a completed sign-in; clear the form cookie."""
    lifetime = page.services.settings.access.session_lifetime
    set_session_cookie(page, response, started.session.sid, lifetime.total_seconds())
    _set(page, response, "device", started.device_id, _DEVICE_COOKIE_SECONDS)
    clear_cookie(response, "form", secure=page.dashboard.secure)


def replace_session_cookie(page: DashboardRequest, response: Response, session: Session) -> None:
    """Set the session cookie of a session that got a new id. It expires when the session does."""
    remaining = session.expires_at - page.services.clock()
    set_session_cookie(page, response, session.sid, remaining.total_seconds())


def clear_session(page: DashboardRequest, response: Response) -> None:
    """Clear the session cookie, and what the browser has stored of the pages.

    `"cache"` includes pages that the Back button would show. The device cookie stays: it identifies a known device.
    """
    clear_cookie(response, "session", secure=page.dashboard.secure)
    response.headers["Clear-Site-Data"] = '"cache", "storage"'


def _set(page: DashboardRequest, response: Response, kind: str, payload: str, seconds: int) -> None:
    value = seal(payload, kind=kind, keyring=page.services.keyring.current())
    set_cookie_value(response, kind, value, secure=page.dashboard.secure, seconds=seconds)
