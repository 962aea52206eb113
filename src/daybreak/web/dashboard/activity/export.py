"""The filtered audit trail of an account as a CSV or JSON Lines file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from msgspec.structs import replace
from starlette.responses import Response

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.display import local
from daybreak.state.stores import Stores
from daybreak.web.dashboard.activity.filters import ActivityFilter
from daybreak.web.dashboard.file_names import download_headers, download_name
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.spreadsheets import CSV_MEDIA_TYPE, spreadsheet_csv
from daybreak.web.streams import thread_pieces

BATCH_EVENTS = 1000
MAXIMUM_BATCHES = 200
_FIELDS = ("at", "action", "result", "actor", "subject", "address", "user_agent", "request_id", "details")


async def csv_response(page: PageRequest, activity: ActivityFilter) -> Response:
    """Stream a CSV file for spreadsheets, with formulas escaped, and times in the zone of the reader."""
    query, zone = activity.events_of(page.client_id), local(page.now).tzinfo

    def rows() -> Iterator[Sequence[str]]:
        yield _FIELDS
        for event in chain.from_iterable(_batches(page, query)):
            details = json.dumps(dict(event.details), ensure_ascii=False)
            record = {**_record(event), "at": event.at.astimezone(zone).isoformat(), "details": details}
            yield [str(record[name]) for name in _FIELDS]

    return await _stream(page, activity, spreadsheet_csv(rows()), "csv", CSV_MEDIA_TYPE)


async def json_lines_response(page: PageRequest, activity: ActivityFilter) -> Response:
    """Stream a JSON Lines file, with times in UTC."""
    query = activity.events_of(page.client_id)

    def lines() -> Iterator[bytes]:
        for batch in _batches(page, query):
            yield "".join(json.dumps(_record(event), ensure_ascii=False) + "\n" for event in batch).encode()

    return await _stream(page, activity, lines(), "jsonl", "application/x-ndjson")


async def _stream(
    page: PageRequest, activity: ActivityFilter, pieces: Iterator[bytes], extension: str, media_type: str
) -> Response:
    """Return the response, and record it in the audit trail that it contains."""
    headers = download_headers(download_name(page, "activity", page.now, f".{extension}"))
    return await page.dashboard.streams.respond(
        page.request,
        page.client_id,
        thread_pieces(pieces),
        {**headers, "Content-Type": media_type},
        record=partial(page.record, "audit.exported", {"format": extension, "filter": activity.query}),
    )


def _batches(page: PageRequest, query: AuditQuery) -> Iterator[list[AuditEvent]]:
    """Yield the events, newest first. Each batch is a short transaction that continues after the last event."""
    before_id: int | None = None
    for _ in range(MAXIMUM_BATCHES):
        batch = replace(query, after_id=before_id, limit=BATCH_EVENTS)
        events = page.dashboard.services.state.read(partial(_read, batch))
        yield events
        if len(events) < BATCH_EVENTS:
            return
        before_id = events[-1].event_id


def _read(query: AuditQuery, stores: Stores) -> list[AuditEvent]:
    return stores.audit.read(query)


def _record(event: AuditEvent) -> dict[str, object]:
    return {
        "at": event.at.isoformat(),
        "action": event.action,
        "result": event.result,
        "actor": event.actor,
        "subject": event.subject or "",
        "address": event.address,
        "user_agent": event.user_agent,
        "request_id": event.request_id,
        "details": dict(event.details),
    }
