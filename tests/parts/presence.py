"""What happens when a part of a test is not on this machine: never silently nothing."""

import os
from typing import NoReturn

import pytest


def absent(part: str, how_to_get_it: str) -> NoReturn:
    """End the test that needs ``part`` and name it: failed where parts can be installed (CI, root), else skipped."""
    message = f"{part} is not on this machine: {how_to_get_it}"
    if os.environ.get("CI") or os.geteuid() == 0:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def not_allowed(what: str, why: str) -> NoReturn:
    """End the test that needs a right which no installing gives: failed in CI, else skipped by name."""
    message = f"{what} is not allowed on this machine: {why}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
