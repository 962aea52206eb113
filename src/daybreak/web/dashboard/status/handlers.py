"""Handler of the public status page."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from daybreak.domain.errors import NotFound
from daybreak.domain.snapshot import Freshness, Snapshot
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.punctuality import punctuality
from daybreak.state.stores import Stores
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.formatting import format_percentage
from daybreak.web.dashboard.freshness.view import day_view, freshness_view
from daybreak.web.dashboard.outcome import PageOutcome
from daybreak.web.dashboard.rendering import render_template

_DAYS = 90
# Anyone may open the page, also many at the same time.
_HEADERS = {"Cache-Control": "public, max-age=30", "Vary": "Accept-Encoding"}


async def show_status(page: DashboardRequest) -> Response:
    """Show the state of the publication and its punctuality. Raises NotFound unless `status_page` is on."""
    services = page.services
    if not services.settings.status_page:
        raise NotFound("There is no page at this address.")
    now, publish_at = services.clock(), page.dashboard.publish_at

    def read(stores: Stores) -> tuple[Freshness, list[Snapshot]]:
        published = stores.snapshots.published_since(now - timedelta(days=_DAYS + 2))
        return freshness(stores.snapshots, now, publish_at), published

    fresh, published = await services.state.aread(read)
    days = punctuality(published, now, publish_at, _DAYS)
    known = [day for day in days if day.lateness is not None]
    view = freshness_view(fresh, now)
    context: dict[str, object] = {
        "fresh": view,
        "favicon": view.favicon,
        "days": [day_view(day) for day in days],
        "on_time": format_percentage(sum(day.on_time for day in known), len(known)),
        "late_days": [text for kind, text in map(day_view, reversed(days)) if kind in ("late-day", "missing")],
        "contact": services.settings.operator_contact,
    }
    return render_template(page, "status/page.html", context, PageOutcome(headers=_HEADERS))
