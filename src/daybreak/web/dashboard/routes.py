"""The dashboard's routes."""

from __future__ import annotations

from starlette.routing import BaseRoute

from daybreak.web.services import Services


def dashboard_routes(services: Services) -> list[BaseRoute]:  # noqa: ARG001 - pages come next
    """Every route below /dashboard."""
    return []
