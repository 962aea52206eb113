"""Handler of the operator's page of nodes."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from daybreak.state.nodes import ALIVE_FOR
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest

_LISTED_FOR = timedelta(days=1)


async def list_nodes(page: PageRequest) -> Response:
    """List the processes that sent a heartbeat in the last day."""
    since = page.now - _LISTED_FOR
    nodes = await page.dashboard.services.state.aread(lambda stores: stores.nodes.list_seen(since))
    context: dict[str, object] = {
        "nodes": [{"node": node, "alive": page.now - node.seen_at < ALIVE_FOR} for node in nodes]
    }
    return render_page(page, "operator/nodes.html", context)
