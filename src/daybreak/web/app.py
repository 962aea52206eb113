"""The application: every route behind the layer that all requests pass, and its end."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from daybreak.web.audit_routes import audit_routes
from daybreak.web.auth_routes import auth_routes
from daybreak.web.dashboard.desk import open_desk
from daybreak.web.dashboard.outside import for_people, nowhere
from daybreak.web.dashboard.routes import dashboard_routes
from daybreak.web.file_responses import DigestGuard
from daybreak.web.file_routes import file_routes
from daybreak.web.hardening import Hardening
from daybreak.web.link_routes import link_routes
from daybreak.web.metrics import Metrics
from daybreak.web.operations_routes import operations_routes
from daybreak.web.readiness import ReadinessProbe
from daybreak.web.services import Services

Close = Callable[[], Awaitable[None]]


class Application:
    """The whole service as an ASGI application. `close` is awaited when the server stops."""

    def __init__(self, services: Services, close: Close) -> None:
        self._close_services = close
        self._metrics = Metrics()
        self._guard = DigestGuard()
        self._probe = ReadinessProbe(services)
        desk = open_desk(services)
        routes = [
            # The busiest first.
            *link_routes(services, self._metrics, self._guard, lambda handler: for_people(desk, handler)),
            *file_routes(services, self._metrics),
            *auth_routes(services),
            *audit_routes(services),
            *operations_routes(services, self._metrics, self._probe),
            *dashboard_routes(desk),
        ]
        self._answer = Hardening(routes, nowhere(desk), services.settings, self._metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or sees the server start and stop; web sockets get nothing."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    def beat(self) -> None:
        """To be called every second: other workers' scrapes see what is counted here."""
        self._metrics.carry()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        try:
            self._guard.close()
            self._probe.close()
            self._metrics.carry()
            await self._close_services()
        except Exception:
            await send({"type": "lifespan.shutdown.failed", "message": traceback.format_exc()})
            raise
        await send({"type": "lifespan.shutdown.complete"})
