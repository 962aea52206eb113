"""Filter of the Activity page, parsed from query parameters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

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
    """Action, part of the actor's email, result, first and last day, and API token; "" or None for no limit.

    `seat_id` is the only seat whose events the user may read, None for all seats.
    """

    seat_id: str | None
    action: str = ""
    actor: str = ""
    result: str = ""
    since: date | None = None
    until: date | None = None
    token: str = ""

    @property
    def values(self) -> dict[str, str]:
        """The filter as query parameters, empty ones included."""
        return {
            "action": self.action,
            "actor": self.actor,
            "result": self.result,
            "since": self.since.isoformat() if self.since else "",
            "until": self.until.isoformat() if self.until else "",
            "token": self.token,
        }

    @property
    def query(self) -> dict[str, str]:
        """The filter as query parameters without empty ones."""
        return {name: value for name, value in self.values.items() if value}

    @property
    def end(self) -> datetime | None:
        """End of the last day. The last days of the calendar have none in all zones."""
        if self.until is None:
            return None
        return start_of(min(self.until, date.max - timedelta(days=2)) + timedelta(days=1))

    def events_of(self, client_id: str) -> AuditQuery:
        """Return the query for the account's matching events, newest first."""
        return AuditQuery(
            client_id=client_id,
            seat_id=self.seat_id,
            subject=f"token:{self.token}" if self.token else None,
            actor_contains=self.actor or None,
            action=self.action or None,
            succeeded=self.result == "ok" if self.result else None,
            since=start_of(max(self.since, date.min + timedelta(days=1))) if self.since else None,
            until=self.end,
            sign_ins=not self.token,
            newest_first=True,
        )


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
    action, result = parameters.get("action", ""), parameters.get("result", "")
    if action and action not in ACTION_LABELS:
        raise InvalidRequest("Unknown action in the URL.")
    if result and result not in RESULTS:
        raise InvalidRequest("Unknown result in the URL.")
    token = parameters.get("token", "")
    if token and not is_id(token):
        raise InvalidRequest("Invalid token in the URL.")
    actor = parameters.get("actor", "").strip()[:MAX_EMAIL_LENGTH]
    since, until = _parse_day(parameters.get("since")), _parse_day(parameters.get("until"))
    return ActivityFilter(readable_audit_seat(page.principal), action, actor, result, since, until, token)


def _parse_day(text: str | None) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("Invalid date. Use year-month-day, for example 2026-11-22.") from None
