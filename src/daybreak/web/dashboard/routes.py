"""Every route of the dashboard; `web.app` mounts them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from daybreak.domain.errors import NotFound
from daybreak.web.dashboard.activity import activity_pages
from daybreak.web.dashboard.assets import asset_response
from daybreak.web.dashboard.desk import Desk
from daybreak.web.dashboard.doorway import gate_page
from daybreak.web.dashboard.files import file_pages
from daybreak.web.dashboard.insight import insight_pages
from daybreak.web.dashboard.operator import operator_pages
from daybreak.web.dashboard.security import security_pages
from daybreak.web.dashboard.sign_in import sign_in_routes
from daybreak.web.dashboard.tokens import token_pages
from daybreak.web.problems import MethodNotAllowed
from daybreak.web.routing import Route, find_route, methods


def dashboard_routes(desk: Desk) -> list[Route]:
    """The routes below /dashboard, in the order they are matched."""
    known = [
        _static_route(desk),
        *sign_in_routes(desk),
        *operator_pages(desk),
        *token_pages(desk),
        *security_pages(desk),
        *insight_pages(desk),
        *activity_pages(desk),
        *file_pages(desk),
    ]

    async def nothing(request: Request) -> Response:
        """What people see who mistyped an address. A path that is there and takes other methods says so."""
        route, _ = find_route(known, request.method, request.scope["path"])
        if route is not None:
            raise MethodNotAllowed(tuple(route.handlers))
        raise NotFound("There is no such page. Its address may have been cut short or mistyped.")

    return [*known, methods("/dashboard/{rest:path}", GET=gate_page(desk, nothing))]


def _static_route(desk: Desk) -> Route:
    async def static(request: Request) -> Response:
        return asset_response(desk.assets, request)

    return methods("/dashboard/static/{digest}/{name}", GET=static)
