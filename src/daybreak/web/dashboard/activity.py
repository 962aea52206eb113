"""Activity: the account's part of the audit trail, filtered, paged, and as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access.authorization import require
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import InvalidRequest
from daybreak.ports.state import Stores
from daybreak.web.dashboard.desk import Desk
from daybreak.web.dashboard.doorway import account_page
from daybreak.web.dashboard.formulas import disarmed
from daybreak.web.dashboard.presentation import agent
from daybreak.web.dashboard.visit import Visit, show, whole_number
from daybreak.web.problems import PROBLEMS
from daybreak.web.routing import Route, methods
from daybreak.web.streamed import streamed

ACTIONS: Mapping[str, str] = {
    "login": "Sign in",
    "logout": "Sign out",
    "second_factor": "Second factor",
    "second_factor.enrolled": "Second factor set up",
    "second_factor.recovery_codes_replaced": "Recovery codes replaced",
    "reauthenticated": "Password confirmed",
    "password.changed": "Password changed",
    "context.switched": "Account switched",
    "session.ended": "Session ended",
    "session.ended_others": "Other sessions ended",
    "token.created": "API token created",
    "token.revoked": "API token revoked",
    "account.added": "Account added",
    "account.changed": "Account changed",
    "account.deactivated": "Account deactivated",
    "grant.changed": "Permissions changed",
    "grant.removed": "Access taken away",
    "link.issued": "Download link given",
    "file.fetched": "File fetched",
}
_PAGE = 50
_FILE_PIECE = 1000
_MOST_PIECES = 200
_FIELDS = ("at", "action", "result", "actor", "subject", "address", "user_agent", "request_id", "details")


@dataclass(frozen=True, slots=True)
class _Filter:
    """What is asked for; `until` is a whole day."""

    action: str
    actor: str
    since: date | None
    until: date | None

    @property
    def query(self) -> dict[str, str]:
        named = {
            "action": self.action,
            "actor": self.actor,
            "since": self.since.isoformat() if self.since else "",
            "until": self.until.isoformat() if self.until else "",
        }
        return {name: value for name, value in named.items() if value}

    @property
    def end(self) -> datetime | None:
        """The instant after the last day; of the calendar's very last day, its beginning."""
        if self.until is None:
            return None
        return datetime.combine(min(self.until, date.max - timedelta(days=1)) + timedelta(days=1), time(0), UTC)

    def read(self, stores: Stores, client_id: str, *, before_id: int | None, limit: int) -> list[AuditEvent]:
        """Newest first, going on from an event to older ones."""
        return stores.audit.read(
            client_id=client_id,
            actor=self.actor or None,
            action=self.action or None,
            since=datetime.combine(self.since, time(0), UTC) if self.since else None,
            until=self.end,
            after_id=before_id,
            newest_first=True,
            limit=limit,
        )


def activity_pages(desk: Desk) -> list[Route]:
    """The page and its two files."""
    base = "/dashboard/{client_id}/activity"
    return [
        methods(base, GET=account_page(desk, _page)),
        methods(f"{base}.csv", GET=account_page(desk, _as_csv)),
        methods(f"{base}.jsonl", GET=account_page(desk, _as_json_lines)),
    ]


async def _page(visit: Visit) -> Response:
    require(visit.principal, "read_audit", visit.client_id)
    wanted = _asked(visit)
    before_id = whole_number(visit.request.query_params.get("before"), least=1, most=1 << 62, fallback=0) or None
    events = await visit.desk.services.state.aread(
        lambda stores: wanted.read(stores, visit.client_id, before_id=before_id, limit=_PAGE + 1)
    )
    older = None
    if len(events) > _PAGE:
        events = events[:_PAGE]
        older = visit.here("activity") + "?" + urlencode({**wanted.query, "before": str(events[-1].event_id)})
    suffix = f"?{urlencode(wanted.query)}" if wanted.query else ""
    context: dict[str, object] = {
        "events": [_view(event) for event in events],
        "actions": sorted(ACTIONS.items(), key=lambda item: item[1]),
        "filters": {
            "action": wanted.action,
            "actor": wanted.actor,
            "since": wanted.query.get("since", ""),
            "until": wanted.query.get("until", ""),
        },
        "filtered": bool(wanted.query),
        "older_url": older,
        "download_csv": visit.here("activity.csv") + suffix,
        "download_jsonl": visit.here("activity.jsonl") + suffix,
    }
    return show(visit, "activity.html", "activity", context)


async def _as_csv(visit: Visit) -> Response:
    """The filtered trail for spreadsheets: text that would run as a formula is disarmed."""
    return _file(visit, "csv", "text/csv; charset=utf-8; header=present", _csv_text)


async def _as_json_lines(visit: Visit) -> Response:
    return _file(visit, "jsonl", "application/x-ndjson", _json_text)


def _csv_text(events: list[AuditEvent], first: bool) -> str:  # noqa: FBT001 - one of two forms of a file
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    if first:
        text.write("\ufeff")
        writer.writerow(_FIELDS)
    for event in events:
        record = {**_record(event), "details": json.dumps(dict(event.details), ensure_ascii=False)}
        cells = [str(record[name]) for name in _FIELDS]
        writer.writerow([disarmed(cell) for cell in cells])
    return text.getvalue()


def _json_text(events: list[AuditEvent], first: bool) -> str:  # noqa: ARG001, FBT001 - lines have no header
    return "".join(json.dumps(_record(event), ensure_ascii=False) + "\n" for event in events)


def _file(visit: Visit, ending: str, media_type: str, written: Callable[[list[AuditEvent], bool], str]) -> Response:
    require(visit.principal, "read_audit", visit.client_id)
    wanted, state = _asked(visit), visit.desk.services.state

    def content() -> Iterator[bytes]:
        # Runs in a thread; each piece is one short read that goes on where the last one ended.
        before_id: int | None = None
        for piece in range(_MOST_PIECES):
            events = state.read(partial(wanted.read, client_id=visit.client_id, before_id=before_id, limit=_FILE_PIECE))
            yield written(events, piece == 0).encode()
            if len(events) < _FILE_PIECE:
                return
            before_id = events[-1].event_id

    name = f"daybreak-activity-{visit.now:%Y-%m-%d}.{ending}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return streamed(visit.request, content(), media_type=media_type, headers=headers)


def _asked(visit: Visit) -> _Filter:
    asked = visit.request.query_params
    action = asked.get("action", "")
    if action and action not in ACTIONS:
        raise InvalidRequest("There is no such kind of event.")
    return _Filter(action, asked.get("actor", "").strip()[:254], _day(asked.get("since")), _day(asked.get("until")))


def _day(text: str | None) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("Write dates as year-month-day.") from None


def _view(event: AuditEvent) -> dict[str, object]:
    subject = event.details.get("file") or event.details.get("name") or ""
    return {
        "at": event.at,
        "label": ACTIONS.get(event.action, event.action),
        "subject": str(subject),
        "actor": event.actor,
        "address": event.address,
        "agent": agent(event.user_agent) if event.user_agent else "",
        "result": event.result,
        # A right password that a second factor has still to follow.
        "outcome": "waits" if (event.action, event.result) == ("login", "second_factor_required") else "refused",
        "why": PROBLEMS[event.result][1] if event.result in PROBLEMS else event.result.replace("_", " "),
    }


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
