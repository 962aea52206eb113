"""Handlers of single sign-on: redirects to the provider, and its response."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from daybreak.access import single_sign_on
from daybreak.access.sessions import ActiveSession
from daybreak.access.single_sign_on import Redirection, VerifiedResponse
from daybreak.domain.errors import InvalidRequest, Unauthenticated
from daybreak.web.dashboard.browser_session import (
    SecondFactorRequired,
    find_session,
    load_session,
    raise_if_ended,
    replace_session_cookie,
    signed_cookie,
)
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.forms import safe_redirect_path
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import redirect
from daybreak.web.dashboard.session_cookie import clear_cookie, cookie_value, set_cookie_value
from daybreak.web.dashboard.sign_in.handlers import continue_sign_in

_COOKIE = "oidc"
_PARAMETERS = ("state", "code", "iss", "error")


async def start_sign_in(page: DashboardRequest) -> Response:
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
    next_path = safe_redirect_path(page.request.query_params.get("next"), fallback=page.path("files"))
    if _is_cross_site(page):
        return redirect(page, next_path)
    begun = await single_sign_on.begin(page.services, next_path=next_path, active=page.active_session)
    return _redirect_to_provider(page, begun)


async def receive_response(page: DashboardRequest) -> Response:
    """Check the response of the provider, and sign in or reauthenticate."""
    services, caller = page.services, page.caller
    cookie = cookie_value(page.request, _COOKIE, secure=page.dashboard.secure)
    verified = await single_sign_on.verify_response(services, cookie, _response_parameters(page.request), caller)
    if verified.request.sid is not None:
        response = await _reauthenticate(page, verified)
    else:
        result = await single_sign_on.sign_in(
            services, verified, caller, device_id=signed_cookie(page, "device"), held_sid=signed_cookie(page, "session")
        )
        response = await continue_sign_in(page, result, verified.request.next_path)
    clear_cookie(response, _COOKIE, secure=page.dashboard.secure)
    return response


async def _reauthenticate(page: DashboardRequest, verified: VerifiedResponse) -> Response:
    client_id = verified.request.client_id
    resolved = await load_session(page, client_id)
    if resolved.session.awaiting_second_factor:
        raise SecondFactorRequired
    active = ActiveSession(resolved.session, resolved.seat, client_id, resolved.session.device_id or "", resolved)
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
    set_cookie_value(response, _COOKIE, begun.cookie, secure=page.dashboard.secure, seconds=seconds)
    return response


def _response_parameters(request: Request) -> dict[str, str]:
    """Return the parameters of the response. Raises InvalidRequest if one is repeated (RFC 6749 §3.1)."""
    query = request.query_params
    if any(len(query.getlist(name)) > 1 for name in _PARAMETERS):
        raise InvalidRequest("The response of the provider contains a parameter twice. Sign in again.")
    return {name: query[name] for name in _PARAMETERS if name in query}


def _is_cross_site(page: DashboardRequest) -> bool:
    return page.request.headers.get("sec-fetch-site") == "cross-site"
