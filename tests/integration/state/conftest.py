"""Migrated, empty state databases of both kinds."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate
from tests.parts.waiting import PATIENT_SECONDS


@pytest.fixture(scope="session")
def migrated_sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database file to copy. A migration per test would take longer than the test."""
    path = tmp_path_factory.mktemp("template") / "state.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(migrated_sqlite_file: Path, tmp_path: Path) -> str:
    path = tmp_path / "state.db"
    shutil.copy(migrated_sqlite_file, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgresql"])
def state_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a migrated, empty state database. Tests run once with each kind."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "migrated_postgresql_url")
    return url


@pytest.fixture
def open_database() -> Iterator[Callable[[str], Database]]:
    """Return a function that opens a state database, which is closed after the test."""
    opened: list[Database] = []

    def open_url(url: str) -> Database:
        # The wait is long, so that slow machines pass.
        opened.append(open_state(url, wait_seconds=PATIENT_SECONDS))
        return opened[-1]

    yield open_url
    for state in opened:
        state.close()


@pytest.fixture
def state(state_url: str, open_database: Callable[[str], Database]) -> Database:
    return open_database(state_url)
