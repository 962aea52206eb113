"""Names of actions, settings and values in the audit trail, as people read them."""

from __future__ import annotations

from collections.abc import Mapping

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
    "token.s3_key_issued": "S3 credentials issued",
    "token.revoked": "API token revoked",
    "password.reset_requested": "Password reset requested",
    "password.reset": "Password reset",
    "notifications.changed": "Notifications changed",
    "webhook.created": "Webhook created",
    "webhook.tested": "Webhook tested",
    "webhook.events_changed": "Webhook events changed",
    "webhook.secret_rotated": "Webhook secret rotated",
    "webhook.retried": "Webhook delivery retried",
    "webhook.disabled": "Webhook disabled",
    "webhook.enabled": "Webhook enabled",
    "webhook.taken_over": "Webhook taken over",
    "webhook.removed": "Webhook removed",
    "account.added": "Account added",
    "account.changed": "Account changed",
    "account.deactivated": "Account deactivated",
    "grant.changed": "Permissions changed",
    "grant.removed": "Access removed",
    "link.issued": "Download link issued",
    "statement.fetched": "Signed statement fetched",
    "table.queried": "Table queried",
    "file.fetched": "File downloaded",
    "file.previewed": "File previewed",
    "files.erased": "Member erased from files",
    "audit.exported": "Audit trail exported",
}
"""Label of each audit action that concerns an account."""

ACTION_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Files": ("link.", "file.", "files.", "statement.", "table."),
    "Sign-in and security": (
        "login", "logout", "second_factor", "passkey.", "reauthenticated", "password.", "context.", "session.",
        "identity.",
    ),
    "API tokens": ("token.",),
    "Account and permissions": ("account.", "grant.", "audit."),
    "Notifications and webhooks": ("notifications.", "webhook."),
}  # fmt: skip
"""Prefixes of the actions in each group of the filter."""

SETTING_LABELS: Mapping[str, str] = {
    "data_export": "Data Export",
    "async_rest_api": "Async REST API",
    "roles": "Roles",
    "first_name": "First name",
    "last_name": "Last name",
    "phone_number": "Phone number",
    "phone_number_type": "Type of phone number",
    "active": "Active",
    "campaign_messages_monthly_threshold": "Campaign messages per month",
    "api_tokens_enabled": "API tokens",
    "second_factor_required": "Second factor required",
    "billing": "Billing",
    "networks": "Allowed addresses",
}

FACT_LABELS: Mapping[str, str] = {
    "file": "File",
    "snapshot_id": "Snapshot",
    "bytes": "Size",
    "rows": "Rows",
    "range": "Range",
    "format": "Format",
    "filter": "Filter",
    "name": "Name",
    "last_four": "Ends in",
    "seat": "Seat",
    "kind": "Kind",
    "proof": "Proof",
    "session": "Session",
    "reason": "Reason",
    "url": "URL",
    "webhook": "Webhook",
    "by": "By",
    "archive": "In an archive",
}


def label_of(labels: Mapping[str, str], name: str) -> str:
    """Return the label of a name. An unlisted name is shown as words."""
    words = name.replace("_", " ").replace(".", " ")
    return labels.get(name) or words[:1].upper() + words[1:]


def grouped_actions() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the groups of the filter, each with its actions and their labels in alphabetical order."""
    return [
        (
            group,
            sorted((item for item in ACTION_LABELS.items() if item[0].startswith(prefixes)), key=lambda item: item[1]),
        )
        for group, prefixes in ACTION_GROUPS.items()
    ]
