"""Handlers of the Activity page and its files."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

from msgspec.structs import replace
from starlette.responses import Response

from daybreak.access.authorization import require
from daybreak.domain.audit import AuditEvent
from daybreak.ports.state import Stores
from daybreak.web.dashboard.activity.export import csv_response, json_lines_response
from daybreak.web.dashboard.activity.filters import RESULTS, ActivityFilter, parse_filter
from daybreak.web.dashboard.activity.labels import grouped_actions
from daybreak.web.dashboard.activity.view import event_rows
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, parse_integer
from daybreak.web.dashboard.paging import Slice

_PAGE_LENGTH = 50
_MAXIMUM_EVENT_ID = 1 << 62
_MAXIMUM_COUNT = 100_000
_MAXIMUM_PAGE = _MAXIMUM_COUNT // _PAGE_LENGTH
_MAXIMUM_SUGGESTIONS = 200
_OTHER_ACTORS = ("operator", "service", "unknown")


async def show_activity(page: PageRequest) -> Response:
    """Show 50 events, newest first. Later pages continue from the newest event of the first one."""
    require(page.principal, "read_audit", page.client_id)
    activity = parse_filter(page)
    parameters = page.request.query_params
    number = parse_integer(parameters.get("page"), minimum=1, maximum=_MAXIMUM_PAGE, default=1)
    newest = parse_integer(parameters.get("newest"), minimum=1, maximum=_MAXIMUM_EVENT_ID, default=0)
    query = replace(activity.events_of(page.client_id), up_to_id=newest or None)

    def read(stores: Stores) -> tuple[int, int, list[AuditEvent], list[str]]:
        total = stores.audit.count(query, at_most=_MAXIMUM_COUNT)
        shown = min(number, max(1, -(-total // _PAGE_LENGTH)))
        events = stores.audit.read(replace(query, offset=(shown - 1) * _PAGE_LENGTH, limit=_PAGE_LENGTH))
        emails = stores.seats.emails_on_account(page.client_id, at_most=_MAXIMUM_SUGGESTIONS)
        return total, shown, events, emails

    # In a thread: counting the events of a large account takes up to a second.
    total, shown, events, emails = await asyncio.to_thread(page.dashboard.services.state.read, read)
    # The first page is always the newest one; the others continue from its newest event.
    newest = newest or (events[0].event_id or 0 if events else 0)
    rows = event_rows(events, page.dashboard.services.settings.access.link_lifetime)
    files_query = f"?{urlencode(activity.query)}" if activity.query else ""
    context: dict[str, object] = {
        "rows": rows,
        "slice": _slice(page, activity, shown, total, len(events), newest),
        "is_limited": total == _MAXIMUM_COUNT,
        "actions": grouped_actions(),
        "results": RESULTS,
        "actors": [*emails, *_OTHER_ACTORS] if activity.seat_id is None else [],
        "filters": activity.values,
        "whole_account": activity.seat_id is None,
        "filtered": bool(activity.query),
        "csv_url": page.url("activity.csv") + files_query,
        "json_lines_url": page.url("activity.jsonl") + files_query,
    }
    return render_page(page, "activity/page.html", "activity", context)


async def download_csv(page: PageRequest) -> Response:
    """Download the filtered events as CSV."""
    require(page.principal, "read_audit", page.client_id)
    activity = parse_filter(page)
    await _record_export(page, activity, "csv")
    return csv_response(page, activity)


async def download_json_lines(page: PageRequest) -> Response:
    """Download the filtered events as JSON Lines."""
    require(page.principal, "read_audit", page.client_id)
    activity = parse_filter(page)
    await _record_export(page, activity, "jsonl")
    return json_lines_response(page, activity)


def _slice(
    page: PageRequest, activity: ActivityFilter, number: int, total: int, count: int, newest: int
) -> Slice[AuditEvent]:
    """Return the position of a page of events."""

    def url(other: int) -> str:
        position = {} if other == 1 else {"page": str(other), "newest": str(newest)}
        return page.url_with("activity", **activity.query, **position)

    first = (number - 1) * _PAGE_LENGTH
    return Slice(
        items=(),
        first=first + 1,
        last=first + count,
        total=total,
        previous_url=url(number - 1) if number > 1 else None,
        next_url=url(number + 1) if first + count < total else None,
    )


async def _record_export(page: PageRequest, activity: ActivityFilter, extension: str) -> None:
    if page.request.method == "GET":
        await page.record("audit.exported", {"format": extension, "filter": activity.query})
