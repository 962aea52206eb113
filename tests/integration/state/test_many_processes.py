"""Many processes on one state database: one winner each time, and no attempt too many; on both databases."""

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
from tests.integration.state.many import ATTEMPTS, DAYS, LIMIT, STEPS
from tests.integration.state.values import DAY, NOW, SEAT, two_accounts

PROCESSES = 8


def answers_of(project_folder: Path, *arguments: str) -> list[Any]:
    """What each of many processes had to say."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.state.many", *arguments],
        capture_output=True, text=True, cwd=project_folder, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


def test_eight_processes_share_one_state(state: Database, state_url: str, project_folder: Path) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.seats.begin_second_factor(SEAT.seat_id, "sealed", NOW))
    state.write(lambda stores: stores.seats.confirm_second_factor(SEAT.seat_id, 1, [], NOW))

    answers = answers_of(project_folder, "share", state_url, str(PROCESSES))

    assert [answer for answer in answers if isinstance(answer, str)] == []
    days = [day for answer in answers for day in answer["won"]]
    assert len(days) == len(set(days)) == DAYS
    fences = [fence for answer in answers for fence in answer["won"].values()]
    assert len(set(fences)) == DAYS
    assert sum(answer["allowed"] for answer in answers) == min(LIMIT, PROCESSES * ATTEMPTS)
    used = [step for answer in answers for step in answer["used"]]
    assert len(used) == len(set(used)), "a step was accepted twice"
    assert max(used) == STEPS[-1]
    over = [answer["over"] for answer in answers if answer["over"] is not None]
    assert len(over) == 1
    assert over[0] > max(fences)
    of_day = [one for one in state.read(lambda stores: stores.snapshots.recent(100)) if one.day == DAY]
    assert [one.state for one in of_day] == [SnapshotState.BUILDING, SnapshotState.FAILED]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_nodes_migrate_at_once_and_again(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, project_folder: Path
) -> None:
    file = tmp_path / "deep" / "state.db"
    url = f"sqlite:///{file}" if kind == "sqlite" else request.getfixturevalue("postgresql_url")
    assert answers_of(project_folder, "migrate", url, "4") == [HEAD] * 4
    assert migrate(url) == HEAD
    state = open_state(url)
    require_current(state, url)
    state.close()
    if kind == "sqlite":
        assert file.stat().st_mode & 0o777 == 0o600
