"""Whether the service can answer: asked of its parts, and not as often as strangers like."""

import asyncio
from unittest.mock import Mock

import pytest

from daybreak.domain.errors import FileStoreError
from daybreak.web import readiness
from daybreak.web.readiness import ReadinessProbe


def looks(*, times: int, fault: Exception | None = None) -> tuple[int, list[bool]]:
    """How often the file store was asked, and what each of so many askers was told, one after the other."""

    async def read(_work: object) -> None:
        """Somebody is there."""

    services = Mock()
    services.state.aread = read
    services.files.probe = Mock(side_effect=fault)

    async def story() -> list[bool]:
        probe = ReadinessProbe(services)
        told = [(await probe.look()).ready for _ in range(times)]
        probe.close()
        return told

    told = asyncio.run(story())
    return services.files.probe.call_count, told


def test_whoever_asks_again_and_again_makes_the_store_work_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_GOOD_FOR_SECONDS", 600.0)
    assert looks(times=20) == (1, [True] * 20)
    monkeypatch.setattr(readiness, "_GOOD_FOR_SECONDS", 0.0)
    assert looks(times=3) == (3, [True] * 3)


def test_a_part_that_is_away_is_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_GOOD_FOR_SECONDS", 600.0)
    assert looks(times=3, fault=FileStoreError("gone")) == (3, [False] * 3)
