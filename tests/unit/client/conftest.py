"""A service with one account, and empty folders of the client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.delta_publisher import NORTH, Publisher, publishing


@pytest.fixture
def north(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """Return the publisher of the account that the environment selects."""
    for name in ("cache", "config"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    with publishing(NORTH) as (found,):
        monkeypatch.setenv("DAYBREAK_SERVICE", found.service.url)
        monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
        monkeypatch.setenv("DAYBREAK_ACCOUNT", NORTH)
        yield found


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"duckdb:///{tmp_path}/exports.duckdb"
