"""Concurrent processes on one state database."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daybreak.domain.snapshot import SnapshotState
from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate, require_current
from daybreak.state.migrations import HEAD
from tests.integration.state.concurrent_processes import ATTEMPTS, DAYS, LIMIT, STEPS
from tests.integration.state.values import DAY, NOW, SEAT, two_accounts
from tests.parts.variants import one_of

PROCESSES = 8


def results_of(project_folder: Path, *arguments: str) -> list[Any]:
    """Return the results of the processes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.state.concurrent_processes", *arguments],
        capture_output=True, text=True, cwd=project_folder, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout)
    return results


@pytest.mark.release
def test_eight_processes_share_one_state(state: Database, state_url: str, project_folder: Path) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.seats.begin_second_factor(SEAT.seat_id, "sealed", NOW))
    state.write(lambda stores: stores.seats.confirm_second_factor(SEAT.seat_id, 1, [], NOW))

    results = results_of(project_folder, "compete", state_url, str(PROCESSES))

    assert [result for result in results if isinstance(result, str)] == []
    days = [day for result in results for day in result["won"]]
    assert len(days) == len(set(days)) == DAYS
    fences = [fence for result in results for fence in result["won"].values()]
    assert len(set(fences)) == DAYS
    assert sum(result["allowed"] for result in results) == min(LIMIT, PROCESSES * ATTEMPTS)
    used = [step for result in results for step in result["used"]]
    assert len(used) == len(set(used)), "a step was accepted twice"
    assert max(used) == STEPS[-1]
    fences_later = results_of(project_folder, "take_over", state_url, str(PROCESSES))
    taken_over = [fence for fence in fences_later if fence is not None]
    assert len(taken_over) == 1
    assert taken_over[0] > max(fences)
    of_day = [one for one in state.read(lambda stores: stores.snapshots.recent(100)) if one.day == DAY]
    assert [one.state for one in of_day] == [SnapshotState.BUILDING, SnapshotState.FAILED]


@pytest.mark.parametrize("kind", one_of("postgresql", "sqlite"))
def test_concurrent_migrations_succeed(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, project_folder: Path
) -> None:
    file = tmp_path / "deep" / "state.db"
    url = f"sqlite:///{file}" if kind == "sqlite" else request.getfixturevalue("postgresql_url")
    assert results_of(project_folder, "migrate", url, "4") == [HEAD] * 4
    assert migrate(url) == HEAD
    state = open_state(url)
    require_current(state, url)
    state.close()
    if kind == "sqlite":
        assert file.stat().st_mode & 0o777 == 0o600
