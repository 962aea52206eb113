"""Handlers of the Activity page and its files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from msgspec.structs import replace
from starlette.responses import Response

from daybreak.domain.audit import AuditQuery
from daybreak.domain.display import local
from daybreak.state.stores import Stores
from daybreak.web.dashboard.activity.export import csv_response, json_lines_response
from daybreak.web.dashboard.activity.filters import RESULTS, ActivityFilter, parse_filter, presets
from daybreak.web.dashboard.activity.labels import grouped_actions
from daybreak.web.dashboard.activity.view import EventRow, days_of, event_rows
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, parse_integer
from daybreak.web.dashboard.paging import Slice, slice_at

_PAGE_LENGTH = 50
_AROUND = 20
_MAXIMUM_EVENT_ID = 1 << 62
_MAXIMUM_COUNT = 100_000
_MAXIMUM_PAGE = _MAXIMUM_COUNT // _PAGE_LENGTH
_MAXIMUM_SUGGESTIONS = 200
_OTHER_ACTORS = ("operator", "service", "unknown")


@dataclass(frozen=True, slots=True)
class _Found:
    """A page of events: its number, its rows, the number of matching events, and the newest of them."""

    number: int
    total: int
    newest: int
    count: int
    rows: list[EventRow]
    actors: list[str]


async def show_activity(page: PageRequest) -> Response:
    """Show 50 events, newest first. Later pages continue from the newest event of the first one."""
    activity = parse_filter(page)
    parameters = page.request.query_params
    number = parse_integer(parameters.get("page"), minimum=1, maximum=_MAXIMUM_PAGE, default=1)
    newest = parse_integer(parameters.get("newest"), minimum=1, maximum=_MAXIMUM_EVENT_ID, default=0)
    link_lifetime = page.dashboard.services.settings.access.link_lifetime

    query = activity.events_of(page.client_id)

    def read(stores: Stores) -> _Found:
        return _read_page(stores, query, number, newest, link_lifetime)

    # In a thread: counting the events of a large account takes up to a second.
    state = page.dashboard.services.state
    found = await page.run_task(lambda: state.read(read))
    files_query = f"?{urlencode(activity.query)}" if activity.query else ""
    context: dict[str, object] = {
        "days": days_of(found.rows),
        "presets": presets(local(page.now).date()),
        "slice": _slice(page, activity, found),
        "is_limited": found.total == _MAXIMUM_COUNT,
        "actions": grouped_actions(),
        "results": RESULTS,
        "actors": found.actors if activity.seat_id is None else [],
        "filters": activity.values,
        "whole_account": activity.seat_id is None,
        "filtered": bool(activity.query),
        "csv_url": page.url("activity.csv") + files_query,
        "json_lines_url": page.url("activity.jsonl") + files_query,
    }
    return render_page(page, "activity/page.html", context)


async def download_csv(page: PageRequest) -> Response:
    """Download the filtered events as CSV."""
    return await csv_response(page, parse_filter(page))


async def download_json_lines(page: PageRequest) -> Response:
    """Download the filtered events as JSON Lines."""
    return await json_lines_response(page, parse_filter(page))


def _read_page(stores: Stores, query: AuditQuery, number: int, newest: int, link_lifetime: timedelta) -> _Found:
    """Read a page of events. `newest` is the newest event of the first page, 0 for the newest of all."""
    if not newest:
        first = stores.audit.read(replace(query, limit=1))
        newest = (first[0].event_id or 0) if first else 0
    query = replace(query, up_to_id=newest)
    total = stores.audit.count(query, at_most=_MAXIMUM_COUNT)
    number = min(number, max(1, -(-total // _PAGE_LENGTH)))
    start = (number - 1) * _PAGE_LENGTH
    # Some events of the pages around, so that a download finds its link, and the link is not shown twice.
    before = min(start, _AROUND)
    events = stores.audit.read(replace(query, offset=start - before, limit=before + _PAGE_LENGTH + _AROUND))
    shown = {event.event_id for event in events[before : before + _PAGE_LENGTH]}
    rows = [row for row in event_rows(events, link_lifetime) if row.event.event_id in shown]
    emails = stores.seats.emails_on_account(query.client_id or "", at_most=_MAXIMUM_SUGGESTIONS)
    return _Found(number, total, newest, len(shown), rows, [*emails, *_OTHER_ACTORS])


def _slice(page: PageRequest, activity: ActivityFilter, found: _Found) -> Slice[EventRow]:
    """Return the position of a page of events."""

    def url(number: str) -> str:
        position = {} if number == "1" else {"page": number, "newest": str(found.newest)}
        return page.url("activity", **activity.query, **position)

    start = (found.number - 1) * _PAGE_LENGTH
    return slice_at(found.rows, start, found.count, total=found.total, length=_PAGE_LENGTH, url=url)
