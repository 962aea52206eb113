"""Fixture: a new instance for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.access.instance import Instance, open_instance


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with open_instance(tmp_path) as opened:
        yield opened
