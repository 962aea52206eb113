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
    "passkey.added": "Passkey added",
    "passkey.renamed": "Passkey renamed",
    "passkey.removed": "Passkey removed",
    "reauthenticated": "Password confirmed",
    "password.changed": "Password changed",
    "context.switched": "Account switched",
    "session.ended": "Session ended",
    "session.ended_others": "Other sessions ended",
    "token.created": "API token created",
    "token.renamed": "API token renamed",
    "token.networks_changed": "Allowed addresses of an API token changed",
    "token.refused": "API token refused",
    "token.revoked": "API token revoked",
    "password.reset_requested": "Password reset requested",
    "password.reset": "Password reset",
    "notifications.changed": "Notifications changed",
    "webhook.created": "Webhook created",
    "webhook.tested": "Webhook tested",
    "webhook.secret_rotated": "Webhook secret rotated",
    "webhook.retried": "Webhook delivery retried",
    "webhook.disabled": "Webhook disabled",
    "webhook.enabled": "Webhook enabled",
    "webhook.removed": "Webhook removed",
    "account.added": "Account added",
    "account.changed": "Account changed",
    "account.deactivated": "Account deactivated",
    "grant.changed": "Permissions changed",
    "grant.removed": "Access removed",
    "link.issued": "Download link issued",
    "table.queried": "Table queried",
    "file.fetched": "File downloaded",
    "file.previewed": "File previewed",
    "audit.exported": "Audit trail exported",
}
"""Label of each audit action that concerns an account."""


def event_view(event: AuditEvent) -> dict[str, object]:
    """Return the variables of one row."""
    awaits_second_factor = (event.action, event.result) == ("login", "second_factor_required")
    return {
        "at": event.at,
        "label": ACTION_LABELS.get(event.action, event.action),
        "subject": _subject(event.details),
        "actor": event.actor,
        "address": event.address,
        "agent": format_user_agent(event.user_agent) if event.user_agent else "",
        "succeeded": event.result == "ok",
        "outcome": "pending" if awaits_second_factor else "denied",
        "reason": PROBLEMS[event.result][1] if event.result in PROBLEMS else event.result.replace("_", " "),
    }


def _subject(details: Mapping[str, object]) -> str:
    """Return what an event is about: a file, the name of a token, changed permissions or the format of an export."""
    if "seat" in details:
        changes = permission_changes(details)
        return f"{details['seat']}: {changes}" if changes else str(details["seat"])
    return str(details.get("file") or details.get("name") or details.get("format") or "")


def permission_changes(details: Mapping[str, object]) -> str:
    """Describe the differences between `before` and `after` of a changed or removed grant, "" without any."""
    before, after = _permissions(details.get("before")), _permissions(details.get("after"))
    changes = []
    for name, label in (("data_export", "Data Export"), ("async_rest_api", "Async REST API")):
        if before.get(name, False) != after.get(name, False):
            changes.append(f"{label} {'on' if after.get(name) else 'off'}")
    if before.get("roles", []) != after.get("roles", []):
        changes.append(f"roles {_list(before.get('roles'))} → {_list(after.get('roles'))}")
    return ", ".join(changes)


def _permissions(found: object) -> Mapping[str, object]:
    return found if isinstance(found, Mapping) else {}


def _list(roles: object) -> str:
    return ", ".join(map(str, roles)) if isinstance(roles, list) and roles else "none"
