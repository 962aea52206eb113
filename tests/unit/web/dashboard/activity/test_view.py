"""Labels of the Activity page."""

import re
from pathlib import Path

import daybreak
from daybreak.web.dashboard.activity.view import ACTION_LABELS, permission_changes

# Actions on an account or by a user on it. Operators' actions on seats and snapshots appear on no account's page.
ACCOUNT_ACTION = re.compile(r'"((?:account|audit|context|file|grant|link|second_factor|session|token)\.[a-z_]+)"')


def test_every_account_action_has_a_label() -> None:
    package = Path(daybreak.__file__).parent
    folders = (package / "access", package / "web")
    sources = [*(path for folder in folders for path in folder.rglob("*.py")), package / "downloads.py"]
    sources.remove(package / "access" / "operators.py")
    recorded = {action for path in sources for action in ACCOUNT_ACTION.findall(path.read_text("utf-8"))}
    assert len(recorded) > 10
    assert recorded - ACTION_LABELS.keys() == set()


def test_permission_changes_are_described() -> None:
    owner = {"roles": ["owner", "admin"], "data_export": True, "async_rest_api": False}
    none = {"roles": [], "data_export": False, "async_rest_api": True}
    assert permission_changes({"before": None, "after": owner}) == "Data Export on, roles none → owner, admin"
    assert permission_changes({"before": owner, "after": none}) == (
        "Data Export off, Async REST API on, roles owner, admin → none"
    )
    assert permission_changes({"before": owner, "after": None}) == "Data Export off, roles owner, admin → none"
    assert permission_changes({"roles": ["owner"], "data_export": True}) == "", "an event of an earlier version"
