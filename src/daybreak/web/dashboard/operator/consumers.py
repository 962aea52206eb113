"""Handler of the operator's page of consumers: which scripts fetch files, and which have stopped."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from daybreak.state.consumers import Consumer, ConsumerCounts
from daybreak.state.stores import Stores
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, parse_integer
from daybreak.web.dashboard.paging import slice_at

_SHOWN = 50
_MAXIMUM_PAGE = 1_000_000


async def list_consumers(page: PageRequest) -> Response:
    """List the API tokens in use, those that were not used for longest first, and how far they are behind."""
    number = parse_integer(page.request.query_params.get("page"), minimum=1, maximum=_MAXIMUM_PAGE, default=1)
    start = (number - 1) * _SHOWN

    def read(stores: Stores) -> tuple[ConsumerCounts, Sequence[Consumer], dict[str, int]]:
        versions = {each.snapshot_id: each.version for each in stores.snapshots.served() if each.version is not None}
        found = stores.consumers.list_by_last_use(page.now, start, _SHOWN)
        return stores.consumers.counts(page.now), found, versions

    # Run in a thread: there may be 100,000 tokens.
    counts, consumers, versions = await page.read_long(read)
    newest = max(versions.values(), default=0)
    figures = {
        "Accounts that fetched yesterday or today": counts.yesterday,
        "Accounts that stopped": counts.stopped,
        "API tokens in use": counts.tokens,
        "API tokens unused for 90 days": counts.unused,
    }
    slice_ = slice_at(
        consumers, start, len(consumers), total=counts.tokens, length=_SHOWN,
        url=lambda shown: page.url("consumers", page=shown),
    )  # fmt: skip
    context: dict[str, object] = {
        "figures": figures,
        "slice": slice_,
        "consumers": [{"consumer": each, "version": _version(each, versions, newest)} for each in consumers],
    }
    return render_page(page, "operator/consumers.html", context)


def _version(consumer: Consumer, versions: dict[str, int], newest: int) -> str:
    """Return the version that a token fetched last, and how many versions are newer."""
    if consumer.latest is None:
        return ""
    version = versions.get(str(consumer.latest.details.get("snapshot_id")))
    if version is None:
        return "no longer kept"
    return "current" if version == newest else f"{version}, {newest - version} behind"
