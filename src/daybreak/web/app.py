"""The ASGI application: routes, middleware, exception handlers and lifespan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ExceptionHandler, Receive, Scope, Send

from daybreak.access.services import Services
from daybreak.domain.errors import DaybreakError, InvalidRequest, NotFound, Unavailable
from daybreak.settings import Settings
from daybreak.sharing import SHARING_PATH
from daybreak.web.api.account_records import audit_routes, erasure_routes
from daybreak.web.api.auth import auth_routes
from daybreak.web.api.deltas import delta_routes
from daybreak.web.api.description import DescriptionEndpoints
from daybreak.web.api.files import file_routes
from daybreak.web.api.health import ReadinessProbe, health_routes
from daybreak.web.api.links import LINK_ROUTE, link_routes
from daybreak.web.api.s3_credentials import s3_credential_routes
from daybreak.web.api.statements import statement_routes
from daybreak.web.dashboard.context import DashboardContext, DashboardRequest, create_dashboard_context
from daybreak.web.dashboard.error_pages import error_page, error_page_or_problem
from daybreak.web.dashboard.routes import dashboard_routes
from daybreak.web.doors.iceberg.routes import iceberg_routes
from daybreak.web.doors.s3.routes import s3_routes
from daybreak.web.doors.sharing.routes import sharing_routes
from daybreak.web.errors import error_response, protocol_form
from daybreak.web.file_sender import FileSender
from daybreak.web.http.digests import DigestGuard
from daybreak.web.http.problems import MethodNotAllowed
from daybreak.web.middleware.body_limits import BodyLimitsMiddleware
from daybreak.web.middleware.client_address import BasePathMiddleware, ClientAddressMiddleware
from daybreak.web.middleware.metrics import MetricsMiddleware
from daybreak.web.middleware.refusals import RefusalMiddleware, head_error, plain_http_error
from daybreak.web.middleware.repeated_parameters import RepeatedParametersMiddleware
from daybreak.web.middleware.request_log import AccessLogMiddleware, UnexpectedErrorMiddleware
from daybreak.web.middleware.response_headers import RequestIdMiddleware, SecurityHeadersMiddleware
from daybreak.web.middleware.revoked_keys import RevokedKeysMiddleware
from daybreak.web.request_state import record_refusal
from daybreak.web.streams import Streams
from daybreak.web.theme.assets import load_assets

if TYPE_CHECKING:
    from daybreak.telemetry import Tracing

BODY_LIMIT_BYTES = 16 * 1024
QUERY_LIMIT_BYTES = 1024 * 1024
BODY_DEADLINE_SECONDS = 15.0
Background = Callable[[], AbstractAsyncContextManager[None]]


class Application(Starlette):
    """The application of one worker. Its middleware receives HTTP requests only."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            scope["app"] = self
            await self.router(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(services: Services, background: Background, tracing: Tracing | None = None) -> Application:
    """Create the application of one worker. The context `background` is open while the worker runs."""
    guard, probe = DigestGuard(), ReadinessProbe(services)
    sender = FileSender(services, guard)
    streams = Streams()
    assets = load_assets(services.settings.base_path)
    dashboard = create_dashboard_context(services, assets, streams)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with background():
            yield
            guard.close()
            probe.close()

    # The router tries routes in this order, so the busiest come first.
    api = [
        *link_routes(services, sender),
        # Before the paths of files, one of which matches every path.
        *delta_routes(services),
        *statement_routes(services),
        *erasure_routes(services, streams),
        *file_routes(services),
        *s3_credential_routes(services),
        *auth_routes(services),
        *audit_routes(services, streams),
        *health_routes(probe),
    ]
    app = Application(
        routes=[
            *api,
            *sharing_routes(services),
            *iceberg_routes(services),
            *s3_routes(services, sender),
            *DescriptionEndpoints(services.settings, assets, api).routes,
            *dashboard_routes(dashboard),
        ],
        middleware=middleware(services.settings, tracing),
        exception_handlers=exception_handlers(dashboard),
        lifespan=lifespan,
    )
    # A redirect to a path that the client chose could lead to another host.
    app.router.redirect_slashes = False
    # Inside of the exception handlers, unlike the middleware of the application.
    inner = RevokedKeysMiddleware(app.router.middleware_stack, services)
    app.router.middleware_stack = RepeatedParametersMiddleware(inner)
    return app


def middleware(settings: Settings, tracing: Tracing | None) -> Sequence[Middleware]:
    """Return the middleware around every route, outermost first.

    Middleware that records requests comes first, then middleware that adds headers, then middleware that refuses
    requests. Every refusal is therefore logged, counted, and sent with all headers. Limits of bodies add a header too,
    and raise their errors where the body is read.
    """
    base_url = settings.base_url
    stack = [
        Middleware(ClientAddressMiddleware, trusted_proxies=settings.trusted_proxies),
        Middleware(RequestIdMiddleware),
    ]
    if settings.base_path:
        stack.append(Middleware(BasePathMiddleware, base_path=settings.base_path))
    stack.append(Middleware(AccessLogMiddleware))
    if settings.counts_requests:
        stack.append(Middleware(MetricsMiddleware))
    if tracing is not None:
        # The module needs packages that only telemetry needs.
        from daybreak.web.middleware.tracing import TracingMiddleware

        stack.append(Middleware(TracingMiddleware, tracing=tracing))
    stack += [
        Middleware(SecurityHeadersMiddleware, hsts=settings.secure),
        Middleware(
            BodyLimitsMiddleware,
            limit_bytes=BODY_LIMIT_BYTES,
            deadline_seconds=BODY_DEADLINE_SECONDS,
            # Queries contain the predicates of the client, such as long lists of values.
            larger_limits={f"{SHARING_PATH}/": QUERY_LIMIT_BYTES},
        ),
        Middleware(UnexpectedErrorMiddleware, base_url=base_url),
        Middleware(RefusalMiddleware, find_error=head_error, base_url=base_url, headers={"Connection": "close"}),
    ]
    if settings.require_https:
        stack.append(Middleware(RefusalMiddleware, find_error=plain_http_error, base_url=base_url))
    return stack


def exception_handlers(dashboard: DashboardContext) -> Mapping[Any, ExceptionHandler]:
    """Return the handlers of errors that endpoints and the router raise."""

    async def not_found(request: Request, _error: Exception) -> Response:
        missing = NotFound("There is no resource at this URL. It may be incomplete or mistyped.")
        return _error_response(dashboard, request, missing)

    async def method_not_allowed(request: Request, _error: Exception) -> Response:
        return _error_response(dashboard, request, MethodNotAllowed(_allowed_methods(request)))

    async def incomplete_body(request: Request, _error: Exception) -> Response:
        # The server reports a malformed chunk in the same way as a disconnected client.
        return _error_response(dashboard, request, InvalidRequest("The request body is incomplete. Send it again."))

    async def known_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, DaybreakError)
        return _error_response(dashboard, request, error)

    return {404: not_found, 405: method_not_allowed, ClientDisconnect: incomplete_body, DaybreakError: known_error}


def _error_response(dashboard: DashboardContext, request: Request, error: DaybreakError) -> Response:
    record_refusal(request.scope, error.code)
    path: str = request.scope["path"]
    if (request.method in {"GET", "HEAD"} or isinstance(error, Unavailable)) and path.startswith("/dashboard/"):
        return error_page(DashboardRequest(dashboard, request), error)
    route = request.scope.get("route")
    # Users open shared links and mistyped URLs in a browser.
    if protocol_form(request.scope) is None and (
        route is None or (isinstance(route, Route) and route.name == LINK_ROUTE)
    ):
        return error_page_or_problem(DashboardRequest(dashboard, request), error)
    return error_response(request.scope, error, base_url=dashboard.services.settings.base_url)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes that match the path (RFC 9110 §10.2.1)."""
    allowed: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.methods and route.matches(request.scope)[0] is not Match.NONE:
            allowed |= route.methods
    return sorted(allowed)
