"""Fixtures: a new instance for each test, and its services with mail."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from daybreak.access.services import Services
from tests.configured import configured
from tests.unit.access.instance import Instance, open_instance


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with open_instance(tmp_path) as opened:
        yield opened


@pytest.fixture
def services(instance: Instance) -> Services:
    """The services of the instance, with mail."""
    mail = {"url": "smtp://127.0.0.1:25", "sender": "exports@example.org"}
    instance.services = replace(instance.services, settings=configured(instance.services.settings, mail=mail))
    return instance.services
