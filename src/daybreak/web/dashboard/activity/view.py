"""Template variables of the Activity page."""

from __future__ import annotations

from collections.abc import Mapping

from daybreak.domain.audit import AuditEvent
from daybreak.web.dashboard.formatting import format_user_agent
from daybreak.web.http.problems import PROBLEMS

ACTION_LABELS: Mapping[str, str] = {
    "login": "Sign-in",
    "logout": "Sign-out",
    "second_factor": "Second factor",
    "second_factor.enrolled": "Second factor turned on",
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
    "grant.removed": "Access removed",
    "link.issued": "Download link issued",
    "file.fetched": "File downloaded",
}
"""Label of each audit action that concerns an account."""


def event_view(event: AuditEvent) -> dict[str, object]:
    """Return the variables of one row."""
    awaits_second_factor = (event.action, event.result) == ("login", "second_factor_required")
    return {
        "at": event.at,
        "label": ACTION_LABELS.get(event.action, event.action),
        "subject": str(event.details.get("file") or event.details.get("name") or ""),
        "actor": event.actor,
        "address": event.address,
        "agent": format_user_agent(event.user_agent) if event.user_agent else "",
        "succeeded": event.result == "ok",
        "outcome": "pending" if awaits_second_factor else "denied",
        "reason": PROBLEMS[event.result][1] if event.result in PROBLEMS else event.result.replace("_", " "),
    }
