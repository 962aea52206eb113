"""SIGKILL at any point of a sync: the database contains the old version or the new one, never a mixture.

`SYNC_KILLS=1000` sets the number of kills per database in `make test-release` (20).
"""

import hashlib
import json
import os
import random
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from daybreak_client.database_sync.targets import open_database
from daybreak_client.tables import parse_tables
from tests.parts.churn import Churn
from tests.parts.delta_publisher import NORTH, Publisher, publishing, schema
from tests.parts.variants import one_of
from tests.parts.warm import run_warm

SHORT, LONG = 5, int(os.environ.get("SYNC_KILLS", "20"))


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
    database: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if database == "duckdb":
        target = f"duckdb:///{tmp_path}/exports.duckdb"
    else:
        target = request.getfixturevalue("postgresql_url")
    choose, churn, outcomes = random.Random(f"{database} {kills}"), Churn(NORTH, seed=5, size=10), Counter[str]()
    with publishing(NORTH) as (publisher,):

        def run(**kill: float | None) -> CompletedProcess[str]:
            command = {
                "service": publisher.service.url, "account": NORTH, "target": target,
                "at_call": None, "at_cpu_seconds": None, **kill,
            }  # fmt: skip
            environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
            return run_warm([json.dumps(command)], module="tests.faults.killed_sync", environment=environment)

        publisher.publish(churn.day())
        complete = run()
        assert complete.returncode == 0, complete.stderr
        calls = int(complete.stdout)
        for kill in range(kills):
            if choose.random() < 0.1:
                publisher.close_chain()  # the next sync loads full files
            publisher.publish(churn.day())
            before = stored_version(publisher, target)
            if kill % 2:
                # A third of these are near the end, around the commit.
                first = calls * 9 // 10 if kill % 3 == 0 else 1
                killed = run(at_call=choose.randrange(first, calls))
            else:
                killed = run(at_cpu_seconds=choose.uniform(0.005, 0.4))
            assert killed.returncode <= 0, "a sync failed instead of being killed"
            after = stored_version(publisher, target)
            assert after in {before, len(publisher.versions)}
            ended = "killed" if killed.returncode else "completed"
            outcomes[f"{ended}, {'old' if after == before else 'new'} version"] += 1
        assert run().returncode == 0
        assert stored_version(publisher, target) == len(publisher.versions)
    print(database, dict(outcomes))
    assert outcomes["killed, old version"]
