"""The filtered audit trail of an account as a CSV or JSON Lines file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace
from starlette.responses import Response

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.state.stores import Stores
from daybreak.web.dashboard.activity.filters import ActivityFilter
from daybreak.web.dashboard.formulas import escape_formulas
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.http.streaming import streamed

BATCH_EVENTS = 1000
MAXIMUM_BATCHES = 200
_FIELDS = ("at", "action", "result", "actor", "subject", "address", "user_agent", "request_id", "details")

EncodeEvents = Callable[[list[AuditEvent]], str]


def csv_response(page: PageRequest, activity: ActivityFilter) -> Response:
    """Stream a CSV file for spreadsheets, with formulas escaped."""
    header = "\ufeff" + _csv_text([_FIELDS])
    return _stream(page, activity, "csv", "text/csv; charset=utf-8; header=present", _encode_csv, header=header)


def json_lines_response(page: PageRequest, activity: ActivityFilter) -> Response:
    """Stream a JSON Lines file."""
    return _stream(page, activity, "jsonl", "application/x-ndjson", _encode_json_lines)


def _stream(
    page: PageRequest,
    activity: ActivityFilter,
    extension: str,
    media_type: str,
    encode: EncodeEvents,
    header: str = "",
) -> Response:
    state = page.dashboard.services.state

    def content() -> Iterator[bytes]:
        # Starlette iterates in a thread. Each batch is a short transaction that continues after the last event.
        if header:
            yield header.encode()
        before_id: int | None = None
        for _ in range(MAXIMUM_BATCHES):
            batch = replace(activity.events_of(page.client_id), after_id=before_id, limit=BATCH_EVENTS)
            events = state.read(partial(_read, batch))
            yield encode(events).encode()
            if len(events) < BATCH_EVENTS:
                return
            before_id = events[-1].event_id

    name = f"daybreak-activity-{page.now:%Y-%m-%d}.{extension}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return streamed(page.request, content(), media_type=media_type, headers=headers)


def _read(query: AuditQuery, stores: Stores) -> list[AuditEvent]:
    return stores.audit.read(query)


def _encode_csv(events: list[AuditEvent]) -> str:
    records = [{**_record(event), "details": json.dumps(dict(event.details), ensure_ascii=False)} for event in events]
    return _csv_text([[escape_formulas(str(record[name])) for name in _FIELDS] for record in records])


def _csv_text(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue()


def _encode_json_lines(events: list[AuditEvent]) -> str:
    return "".join(json.dumps(_record(event), ensure_ascii=False) + "\n" for event in events)


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
