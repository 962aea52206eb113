"""Functions that skip or fail a test when a program or permission is missing."""

import os
from typing import NoReturn

import pytest


def absent(part: str, how_to_install: str) -> NoReturn:
    """End a test that needs `part`: fail it in CI and for root, who can install the part, and skip it otherwise."""
    message = f"{part} is not installed: {how_to_install}"
    if os.environ.get("CI") or os.geteuid() == 0:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def not_allowed(action: str, reason: str) -> NoReturn:
    """End a test that needs a permission: fail it in CI, and skip it otherwise."""
    message = f"{action} is not allowed on this machine: {reason}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
