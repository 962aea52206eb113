"""Filter of the Activity page, parsed from query parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from daybreak.access.authorization import readable_audit_seat
from daybreak.domain.audit import AuditQuery
from daybreak.domain.display import start_of
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import InvalidRequest
from daybreak.domain.identity import is_id
from daybreak.web.dashboard.activity.labels import ACTION_LABELS
from daybreak.web.dashboard.page_request import PageRequest

RESULTS = {"ok": "Succeeded", "failed": "Failed"}
"""Label of each choice of results."""


@dataclass(frozen=True, slots=True)
class ActivityFilter:
    """Query for events of an account, newest first, and the parameters that it is parsed from, "" for no limit."""

    events: AuditQuery
    values: Mapping[str, str]

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that limit the events."""
        return {name: value for name, value in self.values.items() if value}


def presets(today: date) -> list[tuple[str, dict[str, str]]]:
    """Return frequent filters: a label, and the query parameters."""
    week = (today - timedelta(days=6)).isoformat()
    return [
        ("Downloads, last 7 days", {"action": "file.fetched", "since": week}),
        ("Sign-ins, last 7 days", {"action": "login", "since": week}),
        ("Refused, last 7 days", {"result": "failed", "since": week}),
    ]


def parse_filter(page: PageRequest) -> ActivityFilter:
    """Parse the filter of a request, limited to the events that its user may read. Raises InvalidRequest."""
    parameters = page.request.query_params
    values = {name: parameters.get(name, "") for name in ("action", "actor", "result", "since", "until", "token")}
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
    return ActivityFilter(events, values)


def _parse_day(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("Invalid date. Use year-month-day, for example 2026-11-22.") from None
