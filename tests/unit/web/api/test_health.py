"""Caching of readiness checks."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from daybreak.domain.errors import FileStoreError
from daybreak.state.nodes import TaskFault
from daybreak.state.stores import Stores
from daybreak.web.api import health
from daybreak.web.api.health import ReadinessProbe
from tests.unit.access.instance import open_instance


async def checks(*, times: int, error: Exception | None = None) -> tuple[int, list[bool]]:
    """Check several times in succession. Return the number of checks of the file store, and the results."""

    async def read(_work: object) -> None:
        """Succeed, as an available state database does."""

    services = Mock()
    services.state.aread = read
    services.files.probe = Mock(side_effect=error)
    probe = ReadinessProbe(services)
    results = [(await probe.check()).ready for _ in range(times)]
    probe.close()
    return services.files.probe.call_count, results


async def test_success_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_CACHE_SECONDS", 600.0)
    assert await checks(times=20) == (1, [True] * 20)
    monkeypatch.setattr(health, "_CACHE_SECONDS", 0.0)
    assert await checks(times=3) == (3, [True] * 3)


async def test_failure_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_CACHE_SECONDS", 600.0)
    assert await checks(times=3, error=FileStoreError("gone")) == (3, [False] * 3)


async def test_failing_task_is_named_and_the_service_stays_ready(tmp_path: Path) -> None:
    with open_instance(tmp_path) as instance:
        fault = TaskFault("webhook 7", "host", 1, instance.now[0], "ValueError")
        instance.write(lambda stores: stores.task_faults.record(fault))
        probe = ReadinessProbe(Mock(state=instance.services.state))
        found = await probe.check()
        probe.close()
    assert (found.ready, found.failing_tasks) == (True, ("webhook",))


async def test_failing_task_is_named_once_if_the_read_is_repeated(tmp_path: Path) -> None:
    with open_instance(tmp_path) as instance:
        fault = TaskFault("mail", "host", 1, instance.now[0], "ValueError")
        instance.write(lambda stores: stores.task_faults.record(fault))

        async def read_twice(work: Callable[[Stores], object]) -> object:
            """Repeat the read, as after a lost connection to PostgreSQL."""
            await instance.services.state.aread(work)
            return await instance.services.state.aread(work)

        probe = ReadinessProbe(Mock(state=Mock(aread=read_twice)))
        found = await probe.check()
        probe.close()
    assert found.failing_tasks == ("mail",)
