"""The words of the activity page."""

import re
from pathlib import Path

import daybreak
from daybreak.web.dashboard.activity import ACTIONS

# What is done to an account, or by a person on it; what operators do to seats and snapshots is on no account's page.
ON_ACCOUNTS = re.compile(r'"((?:account|context|file|grant|link|second_factor|session|token)\.[a-z_]+)"')


def test_every_event_of_an_account_has_words() -> None:
    package = Path(daybreak.__file__).parent
    sources = [*(package / "access").glob("*.py"), package / "downloads.py"]
    sources.remove(package / "access" / "operators.py")
    written = {action for path in sources for action in ON_ACCOUNTS.findall(path.read_text("utf-8"))}
    assert len(written) > 10
    assert written - ACTIONS.keys() == set()
