"""Handlers of the Activity page and its files."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access.authorization import require
from daybreak.web.dashboard.activity.export import csv_response, json_lines_response
from daybreak.web.dashboard.activity.filters import ActivityFilter, parse_filter
from daybreak.web.dashboard.activity.view import ACTION_LABELS, event_view
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, parse_integer

_PAGE_LENGTH = 50
_MAXIMUM_EVENT_ID = 1 << 62


async def show_activity(page: PageRequest) -> Response:
    """Show 50 events, newest first."""
    require(page.principal, "read_audit", page.client_id)
    activity = parse_filter(page)
    before = page.request.query_params.get("before")
    before_id = parse_integer(before, minimum=1, maximum=_MAXIMUM_EVENT_ID, default=0) or None
    events = await page.dashboard.services.state.aread(
        lambda stores: activity.read(stores, page.client_id, before_id=before_id, limit=_PAGE_LENGTH + 1)
    )
    older_url = None
    if len(events) > _PAGE_LENGTH:
        events = events[:_PAGE_LENGTH]
        older_url = page.url("activity") + "?" + urlencode({**activity.query, "before": str(events[-1].event_id)})
    query = f"?{urlencode(activity.query)}" if activity.query else ""
    context: dict[str, object] = {
        "events": [event_view(event) for event in events],
        "actions": sorted(ACTION_LABELS.items(), key=lambda item: item[1]),
        "filters": activity.values,
        "whole_account": activity.seat_id is None,
        "filtered": bool(activity.query),
        "older_url": older_url,
        "csv_url": page.url("activity.csv") + query,
        "json_lines_url": page.url("activity.jsonl") + query,
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


async def _record_export(page: PageRequest, activity: ActivityFilter, extension: str) -> None:
    if page.request.method == "GET":
        await page.record("audit.exported", {"format": extension, "filter": activity.query})
