"""Databases of the sync: a DuckDB file and a PostgreSQL database."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from daybreak_client import AccountFiles, Daybreak, SyncResult, sync
from tests.parts.delta_publisher import NORTH, SOUTH, Publisher, publishing
from tests.parts.variants import one_of

TOKEN = "service_api_secret"


# For tests of the SQL that loads and changes tables. `make test` runs the others on PostgreSQL only.
both_databases = pytest.mark.parametrize("target", ["duckdb", "postgresql"], indirect=True)
# For tests of requests, plans and downloads: they find the same on every database.
one_database = pytest.mark.parametrize("target", ["postgresql"], indirect=True)


@dataclass(frozen=True)
class Target:
    """URL of a database, and a function that runs SQL in it and returns the rows."""

    url: str
    schema: str
    query: Callable[[str], list[tuple[Any, ...]]]

    @property
    def is_postgresql(self) -> bool:
        return self.url.startswith("postgresql:")


@pytest.fixture(params=one_of("postgresql", "duckdb"))
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "duckdb":
        path = tmp_path / "exports.duckdb"

        def query_duckdb(text: str) -> list[tuple[Any, ...]]:
            with duckdb.connect(str(path)) as connection:
                return connection.execute(text).fetchall()

        return Target(f"duckdb:///{path}", "main", query_duckdb)
    url = request.getfixturevalue("postgresql_url")

    def query_postgresql(text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    return Target(url, "daybreak", query_postgresql)


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def publishers() -> Iterator[list[Publisher]]:
    with publishing(NORTH, SOUTH) as found:
        yield found


@pytest.fixture
def north(publishers: list[Publisher]) -> Publisher:
    return publishers[0]


@pytest.fixture
def accounts(publishers: list[Publisher]) -> Iterator[list[AccountFiles]]:
    with Daybreak(publishers[0].service.url, TOKEN) as service:
        yield [service.account(each.client_id) for each in publishers]


@pytest.fixture
def account(accounts: list[AccountFiles]) -> AccountFiles:
    return accounts[0]


def verified_sync(account: AccountFiles, url: str, **options: Any) -> SyncResult:
    """Sync, and verify that each of the nine tables equals its file."""
    result = sync(account, url, verify=True, **options)
    assert {each.resource: each.verified for each in result.resources if each.verified != "equal"} == {}
    assert len(result.resources) == 9
    return result
