"""Handler of the operator's Freshness page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from starlette.responses import Response

from daybreak.domain.snapshot import Freshness, Snapshot
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.punctuality import punctuality
from daybreak.state.directory import Directory
from daybreak.state.file_faults import FileFault
from daybreak.state.stores import Stores
from daybreak.web.dashboard.formatting import format_number
from daybreak.web.dashboard.freshness.view import day_view, freshness_view
from daybreak.web.dashboard.operator.run_view import lateness
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import slice_of

_ACCOUNTS_SHOWN = 50
_DAYS_SHOWN = 30


@dataclass(frozen=True, slots=True)
class _Publications:
    """Freshness, accounts, Leaders of the published snapshot, Leader counts of the stored ones, and lost files."""

    freshness: Freshness
    directory: Directory
    leaders: set[str]
    history: list[tuple[Snapshot, int]]
    published: list[Snapshot]
    file_faults: list[FileFault]


async def show_freshness(page: PageRequest) -> Response:
    """Show which active accounts have files, and how late each publication was."""
    publish_at = page.dashboard.publish_at

    def read(stores: Stores) -> _Publications:
        fresh = freshness(stores.snapshots, page.now, publish_at)
        leaders = set(stores.snapshots.leaders(fresh.snapshot.snapshot_id)) if fresh.snapshot is not None else set()
        history = [
            (snapshot, sum(1 for _ in stores.snapshots.leaders(snapshot.snapshot_id)))
            for snapshot in stores.snapshots.served()
        ]
        published = stores.snapshots.published_since(page.now - timedelta(days=_DAYS_SHOWN + 2))
        return _Publications(fresh, stores.directory.load(), leaders, history, published, stores.file_faults.list_all())

    # Run in a thread: there may be 100,000 accounts.
    found = await page.read_long(read)
    accounts = found.directory.accounts
    active = [account for account in accounts if account.active]
    missing = sorted(
        (account for account in active if account.client_id not in found.leaders), key=lambda account: account.sort_key
    )
    unknown = found.leaders - {account.client_id for account in accounts}
    figures = {
        "Leaders with files": len(found.leaders),
        "Active accounts": len(active),
        "Accounts without files": len(missing),
        "Leaders without an account": len(unknown),
    }
    days = punctuality(found.published, page.now, publish_at, _DAYS_SHOWN)
    first = found.published[-1].published_at if found.published and days[0].lateness is None else None
    context: dict[str, object] = {
        "fresh": freshness_view(found.freshness, page.now),
        "file_faults": [fault.describe() for fault in found.file_faults],
        "figures": [{"label": label, "value": format_number(value)} for label, value in figures.items()],
        "days": [day_view(day) for day in days],
        "missing": slice_of(
            page, missing, _ACCOUNTS_SHOWN, lambda number: f"{page.url('freshness', page=number)}#missing-title"
        ),
        "history": [
            {
                "as_of": snapshot.as_of,
                "published_at": snapshot.published_at,
                "leaders": leaders,
                "lateness": lateness(snapshot, publish_at, first),
            }
            for snapshot, leaders in found.history
        ],
    }
    return render_page(page, "operator/freshness.html", context)
