"""Migrated, empty state databases of both kinds."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate
from daybreak.state.schema import metadata
from tests.integration.state.values import PATIENT_SECONDS
from tests.parts.postgresql import PostgreSQLServer


@pytest.fixture(scope="session")
def migrated_sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database file to copy. A migration per test would take longer than the test."""
    path = tmp_path_factory.mktemp("template") / "state.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server: PostgreSQLServer) -> str:
    """Return the name of a migrated database. Emptying it is faster than creating another one."""
    name = postgresql_server.fresh_database()
    migrate(postgresql_server.url(name))
    return name


@pytest.fixture
def sqlite_url(migrated_sqlite_file: Path, tmp_path: Path) -> str:
    path = tmp_path / "state.db"
    shutil.copy(migrated_sqlite_file, path)
    return f"sqlite:///{path}"


@pytest.fixture
def migrated_postgresql_url(postgresql_server: PostgreSQLServer, migrated_postgresql: str) -> str:
    with psycopg.connect(postgresql_server.url(migrated_postgresql), options="-c lock_timeout=60000") as connection:
        # Triggers do not fire for a replica. Only a superuser may set this role.
        connection.execute("SET session_replication_role = replica")
        # TRUNCATE would make new files for all tables and indexes, which takes five times as long.
        names = [sql.Identifier(table.name) for table in metadata.sorted_tables]
        connection.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(name) for name in names))
        sequences = connection.execute("SELECT sequencename FROM pg_sequences WHERE last_value IS NOT NULL").fetchall()
        for (name,) in sequences:
            connection.execute(sql.SQL("ALTER SEQUENCE {} RESTART").format(sql.Identifier(name)))
        connection.execute("INSERT INTO counters (name, value) VALUES ('fence', 0), ('version', 0)")
        connection.execute("INSERT INTO current_snapshot (slot) VALUES (1)")
        connection.execute("INSERT INTO audit_retention (slot) VALUES (1)")
    return postgresql_server.url(migrated_postgresql)


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
