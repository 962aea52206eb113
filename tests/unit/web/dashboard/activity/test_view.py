"""Labels of the Activity page."""

import re
from pathlib import Path

import daybreak
from daybreak.web.dashboard.activity.view import ACTION_LABELS

# Actions on an account or by a user on it. Operators' actions on seats and snapshots appear on no account's page.
ACCOUNT_ACTION = re.compile(r'"((?:account|context|file|grant|link|second_factor|session|token)\.[a-z_]+)"')


def test_every_account_action_has_a_label() -> None:
    package = Path(daybreak.__file__).parent
    sources = [*(package / "access").rglob("*.py"), package / "downloads.py"]
    sources.remove(package / "access" / "operators.py")
    recorded = {action for path in sources for action in ACCOUNT_ACTION.findall(path.read_text("utf-8"))}
    assert len(recorded) > 10
    assert recorded - ACTION_LABELS.keys() == set()
