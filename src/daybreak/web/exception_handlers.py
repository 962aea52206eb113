"""Exception handlers, which return the response to each error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ExceptionHandler

from daybreak.domain.errors import DaybreakError, InvalidRequest, NotFound, Unavailable
from daybreak.web.api.links import LINK_ROUTE
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.error_pages import error_page, error_page_or_problem
from daybreak.web.errors import error_response, protocol_form
from daybreak.web.http.problems import MethodNotAllowed
from daybreak.web.request_state import record_refusal


def exception_handlers(dashboard: DashboardContext) -> Mapping[Any, ExceptionHandler]:
    """Return the handlers of errors that endpoints and the router raise."""
    handlers = _ExceptionHandlers(dashboard)
    return {
        404: handlers.not_found,
        405: handlers.method_not_allowed,
        ClientDisconnect: handlers.incomplete_body,
        DaybreakError: handlers.error,
    }


class _ExceptionHandlers:
    def __init__(self, dashboard: DashboardContext) -> None:
        self._dashboard = dashboard

    async def not_found(self, request: Request, _error: Exception) -> Response:
        return self._response(request, NotFound("There is no resource at this URL. It may be incomplete or mistyped."))

    async def method_not_allowed(self, request: Request, _error: Exception) -> Response:
        return self._response(request, MethodNotAllowed(_allowed_methods(request)))

    async def incomplete_body(self, request: Request, _error: Exception) -> Response:
        # The server reports a malformed chunk in the same way as a disconnected client.
        return self._response(request, InvalidRequest("The request body is incomplete. Send it again."))

    async def error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, DaybreakError)
        return self._response(request, error)

    def _response(self, request: Request, error: DaybreakError) -> Response:
        record_refusal(request.scope, error.code)
        path: str = request.scope["path"]
        if (request.method in {"GET", "HEAD"} or isinstance(error, Unavailable)) and path.startswith("/dashboard/"):
            return error_page(self._dashboard, request, error, None)
        route = request.scope.get("route")
        # Users open shared links and mistyped URLs in a browser.
        if protocol_form(request.scope) is None and (
            route is None or (isinstance(route, Route) and route.name == LINK_ROUTE)
        ):
            return error_page_or_problem(self._dashboard, request, error)
        return error_response(request.scope, error, base_url=self._dashboard.services.settings.base_url)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes that match the path (RFC 9110 §10.2.1)."""
    allowed: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.methods and route.matches(request.scope)[0] is not Match.NONE:
            allowed |= route.methods
    return sorted(allowed)
