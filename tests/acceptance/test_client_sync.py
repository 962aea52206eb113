"""`daybreak sync` with a running service whose platform changes every day, with hostile text."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest

from daybreak_client import Daybreak, SyncResult, sync
from tests.acceptance.conftest import new_installation
from tests.acceptance.daily_builder import Builder
from tests.acceptance.installation import LEADERS, MAYA, NORTH, SOUTH
from tests.acceptance.service import Service, serving
from tests.acceptance.test_client_command import Shell
from tests.reference.days import ChangingPlatform

DAYS = 3


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Builder]]:
    """Return a service and its builder."""
    folder = tmp_path_factory.mktemp("sync")
    installation = new_installation(folder)
    with serving(installation, workers=1) as service:
        yield service, Builder(installation, ChangingPlatform(11, leaders=LEADERS, members=400), folder)


def assert_verified(result: SyncResult) -> None:
    assert {each.resource: each.verified for each in result.resources if each.verified != "equal"} == {}
    assert len(result.resources) == 9


@pytest.mark.release
def test_databases_stay_in_step_for_days(
    changing: tuple[Service, Builder], tmp_path: Path, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two accounts share the tables. Their Members move between them, repeat their keys, and have hostile names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    service, builder = changing
    targets = (f"duckdb:///{tmp_path}/exports.duckdb", postgresql_url)
    actions: set[str] = set()
    with Daybreak(service.address, service.token(MAYA)) as maya:
        accounts = [maya.account(NORTH), maya.account(SOUTH)]
        for day in range(DAYS):
            builder.publish()
            for target in targets:
                for account in accounts:
                    result = sync(account, target, verify=True)
                    assert result.version == day + 2
                    assert_verified(result)
                    if day:
                        actions |= {each.action for each in result.resources}
                        assert result.previous_version == day + 1
        assert actions >= {"delta", "unchanged"}
        assert not sync(accounts[0], targets[0]).changed
    with duckdb.connect(f"{tmp_path}/exports.duckdb") as database, psycopg.connect(postgresql_url) as connection:
        query = 'SELECT "LEADER_ID"::text, count(*) FROM {}members GROUP BY 1 ORDER BY 1'
        found = database.execute(query.format("")).fetchall()
        assert found == connection.execute(query.format("daybreak.").encode()).fetchall()
    assert {leader for leader, _ in found} == {NORTH, SOUTH}


@pytest.mark.release
def test_command_syncs_all_accounts(changing: tuple[Service, Builder], tmp_path: Path) -> None:
    service, _ = changing
    shell = Shell(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"), DAYBREAK_TOKEN="", DAYBREAK_SERVICE="")
    shell.run("login", service.address, "--email", MAYA, typed="nine green bicycles uphill\n")
    # One of the accounts has no files yet.
    done = shell.run("sync", "duckdb:///exports.duckdb", "--all-accounts", "--verify", "--json", code=4)
    found = {each["client_id"]: each for each in json.loads(done.stdout)}
    assert {each["verified"] for client in (NORTH, SOUTH) for each in found[client]["resources"]} == {"equal"}
    assert (tmp_path / "exports.duckdb").stat().st_mode & 0o777 == 0o600
    done = shell.run("sync", "duckdb:///exports.duckdb", "--all-accounts", "--full", code=4)
    header, *lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert header[:3] == ["account", "resource", "action"]
    assert Counter(line[0] for line in lines) == {NORTH: 9, SOUTH: 9}
    done = shell.run("sync", "duckdb:///exports.duckdb", "--account", NORTH)
    assert done.stdout == ""
    assert "is current" in done.stderr
