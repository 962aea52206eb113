"""The page of events: types, recipients, and payloads made by the functions that create the events."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from daybreak.domain.events import DEFAULT_EVENTS, Event, EventType, Webhook
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.events.expansion import message_body
from daybreak.events.webhooks import new_test_event
from daybreak.snapshots.events import late_event, published_event, recovered_event
from tools.reference_text import EVENTS, table

_CLIENT_ID = "7d909222-adf5-4547-93e0-e8f60c50f980"
_SNAPSHOT_ID = "4bd15f0c-1c9c-4a2e-9a4e-6b7a5d3f2e10"
_SEAT_ID = "b0f5f4a2-6c4e-4b55-9d1e-0f2f6a1c7d33"
_PUBLISHED_AT = datetime(2026, 11, 25, 4, 0, 0, 12_000, tzinfo=UTC)
_ROWS = {"members": 39791, "communities": 6, "campaigns": 1204}
_BRIEF = (
    "Member Details has 59 new Members, and no longer has 2 Members; 12 Members opted out, twice the usual number.",
    "\u201c\u2068Opening night\u2069\u201d got replies from 13.8 % of 400 recipients.",
    "Nine files are ready, 7 of them without changed rows.",
)
_WHEN = {
    "snapshot.published": ("webhooks of each account, seats", "new files are served"),
    "snapshot.late": (
        "webhooks of each account, seats, operators",
        "the publication time has passed without new files, once a day, from the day after the first run",
    ),
    "snapshot.recovered": ("webhooks of each account, seats, operators", "files arrived after `snapshot.late`"),
    "snapshot.held": ("operators", "the guard blocked a publication"),
    "snapshot.failed": ("operators", "a run failed, and a retry cannot help; once for each day and code"),
    "directory.failing": ("operators", "accounts and seats were not synchronized with the platform for a day"),
    "token.expiring": ("the seat of the token", "14 days and 2 days before an API token expires"),
    "token.idle": ("the seat of the token", "a script that fetched files daily did not for three days"),
    "token.leaked": ("the seat of the token", "a token was found in public and revoked"),
    "second_factor.changed": ("the seat", "the second factor was set up, extended, replaced or removed"),
    "password.changed": ("the seat", "the password was changed, set or reset"),
    "webhook.test": ("one webhook", "someone sent a test event"),
}


def events() -> str:
    """Return the page of events."""
    rows = [
        (f"`{name}`", recipients, when, "on" if EventType(name) in DEFAULT_EVENTS else "off")
        for name, (recipients, when) in _WHEN.items()
        if name != "webhook.test"
    ]
    parts = [EVENTS, table(("Event", "Sent to", "When", "Mail by default"), rows)]
    parts.append("\n## Payloads of webhooks\n\n")
    parts.append(
        "`brief` of `snapshot.published` has up to three sentences about the rows that changed. It is empty for the\n"
        "first files of an account, and without [deltas](../how-to/apply-deltas.md).\n"
    )
    for event, extra in _examples():
        parts.append(f"\n### {event.type.value}\n\n{_WHEN[event.type][1].capitalize()}.\n")
        parts.append(f"\n```json\n{_payload(event, extra)}\n```\n")
    return "".join(parts)


def _examples() -> Iterator[tuple[Event, Mapping[str, object]]]:
    """Yield an event of each type that webhooks receive, and the data that depends on the account."""
    started_at = _PUBLISHED_AT - timedelta(minutes=31)
    snapshot = Snapshot(
        _SNAPSHOT_ID,
        SnapshotState.PUBLISHED,
        started_at,
        started_at,
        _PUBLISHED_AT.date(),
        published_at=_PUBLISHED_AT,
        version=42,
    )
    manifest_url = f"https://export.example.org/download/v1/files/{_CLIENT_ID}"
    yield published_event(snapshot, _PUBLISHED_AT), {"rows": _ROWS, "manifest_url": manifest_url, "brief": _BRIEF}
    expected_at = _PUBLISHED_AT.replace(microsecond=0) + timedelta(minutes=52)
    fresh = Freshness(None, expected_at, late=True, reason="Today's files failed to build. Another attempt follows.")
    attempt_at, late_at = expected_at - timedelta(minutes=30), _PUBLISHED_AT + timedelta(minutes=1)
    late = late_event(_PUBLISHED_AT.date(), fresh, attempt_at, late_at)
    yield late, {}
    yield recovered_event(late, snapshot, expected_at), {}
    endpoint_id = "0c7b2f5e-92c1-4f7e-8a51-3f6b1d2e4c90"
    webhook = Webhook(endpoint_id, _CLIENT_ID, "", "", _PUBLISHED_AT, _SEAT_ID, "")
    yield new_test_event(webhook, "example", _PUBLISHED_AT), {}


def _payload(event: Event, extra: Mapping[str, object]) -> str:
    body = message_body(event, {"client_id": _CLIENT_ID, **event.data, **extra})
    return json.dumps(json.loads(body), indent=2)
