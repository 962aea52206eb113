"""Handlers of the Activity page and its files, and the filter in their query parameters."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import chain, groupby, islice

from msgspec.structs import replace
from starlette.responses import Response

from daybreak.access.authorization import readable_audit_seat
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.display import local, start_of
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import InvalidRequest
from daybreak.domain.identity import is_id
from daybreak.state.stores import Stores
from daybreak.web.dashboard.activity.view import ACTION_GROUPS, ACTION_LABELS, EventRow, event_rows
from daybreak.web.dashboard.file_names import download_name, stream_file
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, parse_integer
from daybreak.web.dashboard.paging import requested_page, slice_at, start_of_page
from daybreak.web.dashboard.spreadsheets import CSV_MEDIA_TYPE, spreadsheet_csv
from daybreak.web.streams import audit_batches, thread_pieces

_PAGE_LENGTH = 50
_AROUND = 20
_MAXIMUM_EVENT_ID = 1 << 62
_MAXIMUM_COUNT = 100_000
_MAXIMUM_SUGGESTIONS = 200
_OTHER_ACTORS = ("operator", "service", "unknown")
BATCH_EVENTS = 1000
MAXIMUM_BATCHES = 200
_PARAMETERS = ("action", "actor", "result", "since", "until", "token")
_FIELDS = ("at", "action", "result", "actor", "subject", "address", "user_agent", "request_id", "details")
RESULTS = {"ok": "Succeeded", "failed": "Failed"}
"""Label of each choice of results."""


def presets(today: date) -> list[tuple[str, dict[str, str]]]:
    """Return frequent filters: a label, and the query parameters."""
    week = (today - timedelta(days=6)).isoformat()
    return [
        ("Downloads, last 7 days", {"action": "file.fetched", "since": week}),
        ("Sign-ins, last 7 days", {"action": "login", "since": week}),
        ("Refused, last 7 days", {"result": "failed", "since": week}),
    ]


def parse_filter(page: PageRequest) -> tuple[AuditQuery, dict[str, str]]:
    """Parse the filter of a request, limited to the events that its user may read. Raises InvalidRequest.

    Return the query, newest events first, and the parameters that limit it.
    """
    values = {name: page.request.query_params.get(name, "") for name in _PARAMETERS}
    values["actor"] = values["actor"].strip()[:MAX_EMAIL_LENGTH]
    action, result, token = values["action"], values["result"], values["token"]
    if action and action not in ACTION_LABELS:
        raise InvalidRequest("Unknown action in the URL.")
    if result and result not in RESULTS:
        raise InvalidRequest("Unknown result in the URL.")
    if token and not is_id(token):
        raise InvalidRequest("Invalid token in the URL.")
    since, until = _parse_day(values["since"]), _parse_day(values["until"])
    # The first and the last days of the calendar do not begin or end in all zones.
    last = None if until is None else min(until, date.max - timedelta(days=2))
    events = AuditQuery(
        client_id=page.client_id,
        seat_id=readable_audit_seat(page.principal),
        subject=f"token:{token}" if token else None,
        actor_contains=values["actor"] or None,
        action=action or None,
        succeeded=result == "ok" if result else None,
        since=start_of(max(since, date.min + timedelta(days=1))) if since is not None else None,
        until=start_of(last + timedelta(days=1)) if last is not None else None,
        sign_ins=not token,
        newest_first=True,
    )
    return events, {name: value for name, value in values.items() if value}


def _parse_day(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("Invalid date. Use year-month-day, for example 2026-11-22.") from None


@dataclass(frozen=True, slots=True)
class _Found:
    """A page of events: how many are before it, the number of matching events, the newest of them, and its rows."""

    start: int
    total: int
    newest: int
    events: list[AuditEvent]
    rows: list[EventRow]
    actors: list[str]


async def show_activity(page: PageRequest) -> Response:
    """Show 50 events, newest first. Later pages continue from the newest event of the first one."""
    query, parameters = parse_filter(page)
    number, newest = requested_page(page), page.request.query_params.get("newest")
    newest_id = parse_integer(newest, maximum=_MAXIMUM_EVENT_ID, default=0)
    link_lifetime = page.services.settings.access.link_lifetime

    # In a thread: counting the events of a large account takes up to a second.
    found = await page.read_long(lambda stores: _read_page(stores, query, number, newest_id, link_lifetime))

    def url(number: str) -> str:
        position = {} if number == "1" else {"page": number, "newest": str(found.newest)}
        return page.url("activity", **parameters, **position)

    context: dict[str, object] = {
        "days": [(day, list(rows)) for day, rows in groupby(found.rows, key=lambda row: local(row.event.at).date())],
        "presets": presets(local(page.now).date()),
        "slice": slice_at(found.events, found.start, found.total, _PAGE_LENGTH, url),
        "is_limited": found.total == _MAXIMUM_COUNT,
        "actions": ACTION_GROUPS,
        "results": RESULTS,
        "actors": found.actors if query.seat_id is None else [],
        "filters": {**dict.fromkeys(_PARAMETERS, ""), **parameters},
        "whole_account": query.seat_id is None,
        "filtered": bool(parameters),
        "csv_url": page.url("activity.csv", **parameters),
        "json_lines_url": page.url("activity.jsonl", **parameters),
    }
    return render_page(page, "activity/page.html", context)


def _read_page(stores: Stores, query: AuditQuery, number: int, newest: int, link_lifetime: timedelta) -> _Found:
    """Read a page of events. `newest` is the newest event of the first page, 0 for the newest of all."""
    if not newest:
        first = stores.audit.read(replace(query, limit=1))
        newest = (first[0].event_id or 0) if first else 0
    query = replace(query, up_to_id=newest)
    total = stores.audit.count(query, at_most=_MAXIMUM_COUNT)
    start = start_of_page(number, total, _PAGE_LENGTH)
    # Some events of the pages around, so that a download finds its link, and the link is not shown twice.
    before = min(start, _AROUND)
    events = stores.audit.read(replace(query, offset=start - before, limit=before + _PAGE_LENGTH + _AROUND))
    shown = events[before : before + _PAGE_LENGTH]
    ids = {event.event_id for event in shown}
    rows = [row for row in event_rows(events, link_lifetime) if row.event.event_id in ids]
    holders = stores.seats.list_on_account(query.client_id or "", _MAXIMUM_SUGGESTIONS)
    emails = [seat.email for seat, _ in holders]
    return _Found(start, total, newest, shown, rows, [*emails, *_OTHER_ACTORS])


async def download_csv(page: PageRequest) -> Response:
    """Stream the filtered events for spreadsheets: formulas are escaped, and times are in the zone of the reader."""
    (query, parameters), zone = parse_filter(page), local(page.now).tzinfo

    def rows() -> Iterator[Sequence[str]]:
        yield _FIELDS
        for event in chain.from_iterable(_batches(page, query)):
            details = json.dumps(dict(event.details), ensure_ascii=False)
            record = {**_record(event), "at": event.at.astimezone(zone).isoformat(), "details": details}
            yield [str(record[name]) for name in _FIELDS]

    return await _stream(page, parameters, spreadsheet_csv(rows()), "csv", CSV_MEDIA_TYPE)


async def download_json_lines(page: PageRequest) -> Response:
    """Stream the filtered events as JSON Lines, with times in UTC."""
    query, parameters = parse_filter(page)

    def lines() -> Iterator[bytes]:
        for batch in _batches(page, query):
            yield "".join(json.dumps(_record(event), ensure_ascii=False) + "\n" for event in batch).encode()

    return await _stream(page, parameters, lines(), "jsonl", "application/x-ndjson")


async def _stream(
    page: PageRequest, parameters: Mapping[str, str], pieces: Iterator[bytes], extension: str, media_type: str
) -> Response:
    """Return the response, and record it in the audit trail that it contains."""
    record = partial(page.record, "audit.exported", {"format": extension, "filter": parameters})
    name = download_name(page, "activity", page.now, f".{extension}")
    return await stream_file(page, thread_pieces(pieces), name, media_type, record)


def _batches(page: PageRequest, query: AuditQuery) -> Iterator[list[AuditEvent]]:
    return islice(audit_batches(page.services.state, replace(query, limit=BATCH_EVENTS)), MAXIMUM_BATCHES)


def _record(event: AuditEvent) -> dict[str, object]:
    changed = {"at": event.at.isoformat(), "subject": event.subject or "", "details": dict(event.details)}
    return {name: changed[name] if name in changed else getattr(event, name) for name in _FIELDS}
