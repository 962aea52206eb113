"""SIGKILL at any point of a sync: the database contains the old version or the new one, never a mixture.

`SYNC_KILLS=1000` sets the number of kills per database in `make test-release` (20).
"""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak_client.database_sync.targets import open_database
from daybreak_client.tables import parse_tables
from tests.parts.churn import Churn
from tests.parts.delta_publisher import Publisher, publishing, schema
from tests.parts.variants import one_of

NORTH = "7d909222-adf5-4547-93e0-e8f60c50f980"
SHORT, LONG = 5, int(os.environ.get("SYNC_KILLS", "20"))


class SyncProcesses:
    """Runs syncs in processes that are killed."""

    def __init__(self, program: subprocess.Popen[str], publisher: Publisher, target: str) -> None:
        self._program, self._publisher, self._target = program, publisher, target

    def run(self, *, at_call: int | None = None, at_cpu_seconds: float | None = None) -> dict[str, int]:
        command = {
            "service": self._publisher.service.url, "account": NORTH, "target": self._target,
            "at_call": at_call, "at_cpu_seconds": at_cpu_seconds,
        }  # fmt: skip
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps(command) + "\n")
        self._program.stdin.flush()
        answer: dict[str, int] = json.loads(self._program.stdout.readline())
        return answer


@pytest.fixture
def fork_server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.killed_sync"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    ) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()


def stored_version(publisher: Publisher, target: str) -> int:
    """Return the version in the database, after comparing every table with the files of that version."""
    database = open_database(target, None, read_only=False)
    assert database is not None
    try:
        state = database.state(NORTH)
        if state is None:
            return 0
        full = publisher.versions[state.version - 1].full
        for table in parse_tables(schema()):
            expected = hashlib.sha256(full[table.name]).hexdigest()
            assert database.content_sha256(table, NORTH) == expected, (table.name, state.version)
            assert state.resources[table.name].content_sha256 == expected
        return state.version
    finally:
        database.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("database", "kills"), one_of(("postgresql", SHORT), ("postgresql", LONG), ("duckdb", LONG)))
def test_killed_sync_leaves_one_version(
    database: str, kills: int, tmp_path: Path, fork_server: subprocess.Popen[str], request: pytest.FixtureRequest
) -> None:
    if database == "duckdb":
        target = f"duckdb:///{tmp_path}/exports.duckdb"
    else:
        target = request.getfixturevalue("postgresql_url")
    choose, churn, outcomes = random.Random(f"{database} {kills}"), Churn(NORTH, seed=5, size=10), Counter[str]()
    with publishing(NORTH) as (publisher,):
        processes = SyncProcesses(fork_server, publisher, target)
        publisher.publish(churn.day())
        complete: dict[str, Any] = processes.run()
        assert complete["status"] == 0
        for kill in range(kills):
            if choose.random() < 0.1:
                publisher.close_chain()  # the next sync loads full files
            publisher.publish(churn.day())
            before = stored_version(publisher, target)
            if kill % 2:
                # A third of these are near the end, around the commit.
                first = complete["calls"] * 9 // 10 if kill % 3 == 0 else 1
                killed = processes.run(at_call=choose.randrange(first, complete["calls"]))
            else:
                killed = processes.run(at_cpu_seconds=choose.uniform(0.005, 0.4))
            assert killed["status"] <= 0, "a sync failed instead of being killed"
            after = stored_version(publisher, target)
            assert after in {before, len(publisher.versions)}
            ended = "killed" if killed["status"] else "completed"
            outcomes[f"{ended}, {'old' if after == before else 'new'} version"] += 1
        assert processes.run()["status"] == 0
        assert stored_version(publisher, target) == len(publisher.versions)
    print(database, dict(outcomes))
    assert outcomes["killed, old version"]
