"""Handlers of the public status page, and of the operator's page about freshness."""

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
from daybreak.web.dashboard.operator.run_view import lateness
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import requested_page, slice_at, start_of_page
from daybreak.web.dashboard.rendering import PageOutcome, render_template

_ACCOUNTS_SHOWN = 50
_DAYS_SHOWN = 30
_PUBLIC_DAYS = 90
# Anyone may open the page, also many at the same time.
_HEADERS = {"Cache-Control": "public, max-age=30", "Vary": "Accept-Encoding"}


async def show_freshness(page: PageRequest) -> Response:
    """Show which active accounts have files, and how late each publication was."""
    publish_at, number = page.dashboard.publish_at, requested_page(page)

    def url(other: str) -> str:
        return f"{page.url('freshness', page=other)}#missing-title"

    def read(stores: Stores) -> dict[str, object]:
        fresh, served = freshness(stores.snapshots, page.now, publish_at), stores.snapshots.served()
        published = stores.snapshots.published_since(page.now - timedelta(days=_DAYS_SHOWN + 2))
        days = punctuality(published, page.now, publish_at, _DAYS_SHOWN)
        first = published[-1].published_at if published and days[0].lateness is None else None
        leaders = stores.coverage.count_leaders([each.fence for each in served])
        fence = fresh.snapshot.fence if fresh.snapshot is not None else 0
        covered = stores.coverage.count(fence)
        start = start_of_page(number, covered.without_files, _ACCOUNTS_SHOWN)
        missing = stores.coverage.without_files(fence, start, _ACCOUNTS_SHOWN)
        return {
            "fresh": freshness_view(fresh, page.now),
            "file_faults": [fault.describe() for fault in stores.file_faults.list_all()],
            "figures": {
                "Leaders with files": covered.leaders,
                "Active accounts": covered.active,
                "Accounts without files": covered.without_files,
                "Leaders without an account": covered.without_account,
            },
            "days": [day_view(day) for day in days],
            "missing": slice_at(missing, start, covered.without_files, _ACCOUNTS_SHOWN, url),
            "history": [(each, leaders.get(each.fence, 0), lateness(each, publish_at, first)) for each in served],
        }

    # Run in a thread: the database may compare 100,000 accounts.
    return render_page(page, "status/freshness.html", await page.read_long(read))


async def show_status(page: DashboardRequest) -> Response:
    """Show the state of the publication and its punctuality. Raises NotFound unless `status_page` is on."""
    services = page.services
    if not services.settings.status_page:
        raise NotFound("There is no page at this address.")
    now, publish_at = services.clock(), page.dashboard.publish_at

    def read(stores: Stores) -> tuple[Freshness, list[Snapshot]]:
        published = stores.snapshots.published_since(now - timedelta(days=_PUBLIC_DAYS + 2))
        return freshness(stores.snapshots, now, publish_at), published

    fresh, published = await services.state.aread(read)
    days = punctuality(published, now, publish_at, _PUBLIC_DAYS)
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
