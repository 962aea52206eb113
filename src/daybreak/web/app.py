"""The application: every route, the errors' answers, and the layer around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from daybreak.domain.errors import DaybreakError, NotFound, RequestError
from daybreak.web.audit_routes import audit_routes
from daybreak.web.auth_routes import auth_routes
from daybreak.web.dashboard.routes import dashboard_routes
from daybreak.web.file_responses import DigestGuard, RangeNotSatisfiable
from daybreak.web.file_routes import file_routes
from daybreak.web.hardening import Hardening
from daybreak.web.link_routes import link_routes
from daybreak.web.metrics import Metrics
from daybreak.web.operations_routes import operations_routes
from daybreak.web.problems import problem_response
from daybreak.web.readiness import ReadinessProbe
from daybreak.web.request_facts import facts_of
from daybreak.web.services import Services

Close = Callable[[], Awaitable[None]]


def create_app(services: Services, *, close: Close | None = None) -> ASGIApp:
    """The whole service as an ASGI application. `close` is awaited when the server stops."""
    metrics = Metrics()
    guard = DigestGuard(services.files)
    probe = ReadinessProbe(services)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            guard.close()
            probe.close()
            if close is not None:
                await close()

    app = Starlette(
        routes=[
            # The busiest first.
            *link_routes(services, metrics, guard),
            *file_routes(services, metrics),
            *auth_routes(services),
            *audit_routes(services),
            *operations_routes(services, metrics, probe),
            *dashboard_routes(services),
        ],
        exception_handlers={
            DaybreakError: _problem_handler(services),
            HTTPException: _framework_handler(services),
            # Answered here, raised again by the framework, logged by the layer around it.
            Exception: _defect_handler(services),
        },
        lifespan=lifespan,
    )
    # A redirect to the path with a slash would be built from the Host header.
    app.router.redirect_slashes = False
    return Hardening(app, services.settings, metrics)


def _problem_handler(services: Services) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, fault: Exception) -> Response:
        assert isinstance(fault, DaybreakError)
        headers = {}
        if isinstance(fault, RangeNotSatisfiable):
            headers = {"Content-Range": f"bytes */{fault.size}", "Accept-Ranges": "bytes"}
        return problem_response(
            fault,
            request_id=facts_of(request).request_id,
            base_url=services.settings.base_url,
            headers=headers,
        )

    return answer


def _defect_handler(services: Services) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, _fault: Exception) -> Response:
        return problem_response(
            DaybreakError(""), request_id=facts_of(request).request_id, base_url=services.settings.base_url
        )

    return answer


def _framework_handler(services: Services) -> Callable[[Request, Exception], Awaitable[Response]]:
    """What the framework refuses by itself, as problems like any other."""

    async def answer(request: Request, fault: Exception) -> Response:
        assert isinstance(fault, HTTPException)
        error: DaybreakError
        if fault.status_code == 404:
            error = NotFound("There is nothing at this path.")
        elif fault.status_code == 405:
            allowed = (fault.headers or {}).get("Allow", "")
            error = RequestError(f"This path takes {allowed}.", code="method_not_allowed")
        else:
            error = RequestError("The request is malformed.")
        return problem_response(
            error,
            request_id=facts_of(request).request_id,
            base_url=services.settings.base_url,
            headers=fault.headers,
        )

    return answer
