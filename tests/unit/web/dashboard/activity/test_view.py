"""Labels, rows and details of the Activity page."""

import ast
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import daybreak
from daybreak.domain.audit import AuditEvent
from daybreak.web.dashboard.activity.view import (
    ACTION_GROUPS,
    ACTION_LABELS,
    EventRow,
    event_rows,
    permission_changes,
)

ACTION = re.compile(
    r"(?:account|audit|context|files?|grant|identity|link|member|notifications|passkey|password|run|seat|second_factor"
    r"|session|snapshot|table|token|webhook)\.(?!html)[a-z_]+"
)
# Actions of operators, the service and seats that concern no account, so that no Activity page shows them.
WITHOUT_ACCOUNT = frozenset(
    {
        "identity.bound", "identity.unbound", "member.erased", "password.set", "run.requested", "seat.added",
        "seat.changed", "seat.disabled", "seat.enabled", "seat.invited", "seat.operator_granted",
        "seat.operator_withdrawn", "seat.session_ended", "seat.signed_out", "second_factor.reset",
        "snapshot.discarded", "snapshot.forgotten", "snapshot.published",
    }
)  # fmt: skip


def test_every_account_action_has_a_label() -> None:
    package = Path(daybreak.__file__).parent
    folders = [package / name for name in ("access", "events", "snapshots", "web")]
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    sources += (package / "downloads.py", package / "sharing.py")
    recorded = {action for path in sources for action in _actions(path)}
    assert recorded >= WITHOUT_ACCOUNT
    assert recorded - WITHOUT_ACCOUNT - ACTION_LABELS.keys() == set()


def _actions(path: Path) -> set[str]:
    """Return the names of actions in a module. Names of log events have the same form."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    logged = {argument for node in nodes if isinstance(node, ast.Call) and _is_log(node) for argument in node.args}
    literals = [node for node in nodes if isinstance(node, ast.Constant) and node not in logged]
    return {each.value for each in literals if isinstance(each.value, str) and ACTION.fullmatch(each.value)}


def _is_log(call: ast.Call) -> bool:
    function = call.func
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "_log"


def test_permission_changes_are_described() -> None:
    owner = {"roles": ["owner", "admin"], "data_export": True, "async_rest_api": False}
    none = {"roles": [], "data_export": False, "async_rest_api": True}
    assert permission_changes({"before": None, "after": owner}) == "Data Export on, roles none → owner, admin"
    assert permission_changes({"before": owner, "after": none}) == (
        "Data Export off, Async REST API on, roles owner, admin → none"
    )
    assert permission_changes({"before": owner, "after": None}) == "Data Export off, roles owner, admin → none"
    assert permission_changes({"roles": ["owner"], "data_export": True}) == "", "an event of an earlier version"


NOW = datetime(2026, 11, 24, 8, tzinfo=UTC)
LIFETIME = timedelta(minutes=15)


def _event(action: str, minute: int, *, result: str = "ok", subject: str = "token:1", **details: Any) -> AuditEvent:
    return AuditEvent(
        at=NOW + timedelta(minutes=minute), action=action, result=result, actor="maya@example.org", seat_id="maya",
        subject=subject, details=details, event_id=100 + minute,
    )  # fmt: skip


def _rows(*events: AuditEvent) -> list[tuple[int, int | None]]:
    """Return the minute of each row, and of the link that it includes."""
    rows = event_rows(list(reversed(events)), LIFETIME)

    def minute(event: AuditEvent) -> int:
        return (event.event_id or 0) - 100

    return [(minute(row.event), minute(row.link) if row.link else None) for row in rows]


def test_actions_of_a_group_are_in_alphabetical_order() -> None:
    for actions in ACTION_GROUPS.values():
        assert list(actions.values()) == sorted(actions.values())
    assert len(ACTION_LABELS) == sum(map(len, ACTION_GROUPS.values())), "every action is in one group"


def test_download_and_its_link_are_one_row() -> None:
    file = {"file": "members.csv.gz", "snapshot_id": "s1"}
    link, fetch = _event("link.issued", 0, **file), _event("file.fetched", 2, **file)
    assert _rows(link, fetch) == [(2, 0)]
    other_file = _event("file.fetched", 1, file="campaigns.csv.gz", snapshot_id="s1")
    assert _rows(link, other_file, fetch) == [(2, 0), (1, None)]


def test_unrelated_downloads_keep_their_own_row() -> None:
    file = {"file": "members.csv.gz", "snapshot_id": "s1"}
    link = _event("link.issued", 0, **file)
    assert _rows(link) == [(0, None)]
    assert _rows(link, _event("file.fetched", 16, **file)) == [(16, None), (0, None)]
    assert _rows(link, _event("file.fetched", 1, subject="token:2", **file)) == [(1, None), (0, None)]
    assert _rows(link, _event("file.fetched", 1, **file), _event("file.fetched", 2, **file)) == [(2, None), (1, 0)]
    refused = _event("link.issued", 0, result="rate_limited", **file)
    assert _rows(refused, _event("file.fetched", 1, **file)) == [(1, None), (0, None)]


def test_changes_have_values_before_and_after() -> None:
    before = {"roles": ["owner"], "data_export": True, "async_rest_api": True}
    after = {"roles": [], "data_export": False, "async_rest_api": True}
    assert EventRow(_event("grant.changed", 0, seat="carl@example.org", before=before, after=after)).changes == [
        ("Roles", "owner", "none"),
        ("Data Export", "on", "off"),
    ]
    changed = _event("account.changed", 0, before={"api_tokens_enabled": False}, after={"api_tokens_enabled": True})
    assert EventRow(changed).changes == [("API tokens", "off", "on")]
    switched: dict[str, Any] = {"files.late": False}
    event = _event("notifications.changed", 0, **switched)
    assert EventRow(event).changes == [("Files late", "on", "off")]
    assert event_rows([event], LIFETIME)[0].facts == [("Credential", "token:1")]


def test_details_are_labeled() -> None:
    (row,) = event_rows([_event("file.fetched", 0, file="members.csv.gz", bytes=1_234_567, odd_name=[])], LIFETIME)
    assert row.facts == [
        ("File", "members.csv.gz"),
        ("Size", "1.2 MB"),
        ("Odd name", "none"),
        ("Credential", "token:1"),
    ]


def test_subject_is_labeled_by_what_it_is() -> None:
    cases = {
        "files.erased": ("s1", ("Snapshot", "s1")),
        "webhook.disabled": ("webhook:1", ("Webhook", "webhook:1")),
        "file.fetched": ("session:1", ("Credential", "session:1")),
    }
    for action, (subject, fact) in cases.items():
        (row,) = event_rows([_event(action, 0, subject=subject)], LIFETIME)
        assert row.facts == [fact]
    erased = _event("files.erased", 0, subject="s1", erasure="e1", rows={"members": 1})
    (row,) = event_rows([erased], LIFETIME)
    assert row.label == "Member erased from files"
    assert row.facts == [("Erasure", "e1"), ("Rows", "Members 1"), ("Snapshot", "s1")]


def test_queries_name_the_table_and_its_version() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"table": "members", "version": 48, "files": 1}, "members, version 48"),
        ({"table": "members", "from_version": 45, "version": 48, "files": 2}, "members, version 45 to 48"),
        ({"table": "members", "from_version": 45, "files": 2}, "members, version 45"),
        ({}, ""),
    )
    for details, subject in cases:
        (row,) = event_rows([_event("table.queried", 0, **details)], LIFETIME)
        assert row.subject == subject
