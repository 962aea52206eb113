"""Migrations of the state database, and its URLs."""

import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from daybreak.domain.errors import OperatorError
from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate, require_current
from daybreak.state.migrations import FIRST, HEAD
from daybreak.state.postgresql_state import PostgresqlState
from daybreak.state.schema import metadata
from daybreak.state.sqlite_file import connect
from tests.acceptance.upgrade.record import INSTANCES
from tests.integration.state.values import sql_engine


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deep/state.db"
    url: str = request.getfixturevalue("postgresql_url")
    return url


def test_empty_database_error_names_the_command(empty_url: str, open_database: Callable[[str], Database]) -> None:
    with pytest.raises(OperatorError, match=r"does not exist or is empty\. Check state\.url.*daybreakd migrate"):
        require_current(open_database(empty_url), empty_url)


def test_new_file_waits_a_bounded_time_for_another_writer(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        connect(path, 0.1)
    end = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    end.start()
    try:
        with closing(connect(path, 120)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        end.join()
        other.close()


def differences(url: str) -> list[Any]:
    """Return how a database differs from the declared schema."""
    engine = sql_engine(url)
    try:
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            return list(compare_metadata(context, metadata))
    finally:
        engine.dispose()


def test_new_database_has_the_declared_schema(state_url: str) -> None:
    assert differences(state_url) == []


def indexes(url: str) -> set[tuple[str, str]]:
    """Return the names and definitions of all indexes."""
    engine = sql_engine(url)
    query = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        if url.startswith("sqlite")
        else "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
    )
    try:
        with engine.connect() as connection:
            return {(name, text) for name, text in connection.exec_driver_sql(query)}
    finally:
        engine.dispose()


def test_earlier_database_is_migrated_to_the_schema_of_a_new_one(
    empty_url: str, request: pytest.FixtureRequest
) -> None:
    if empty_url.startswith("sqlite"):
        path = Path(empty_url[10:])
        path.parent.mkdir()
        with closing(sqlite3.connect(path)) as database:
            database.executescript((INSTANCES / "eb8cd2d" / "state.sql").read_text("utf-8"))
    else:
        with psycopg.connect(empty_url) as connection:
            connection.execute(Path(__file__).with_name("r0010_postgresql.sql").read_bytes())
    assert migrate(empty_url) == HEAD
    assert differences(empty_url) == []
    new_url = request.getfixturevalue("sqlite_url" if empty_url.startswith("sqlite") else "migrated_postgresql_url")
    assert indexes(empty_url) == indexes(new_url)


def test_new_sqlite_file_stores_large_tables_without_row_ids(tmp_path: Path) -> None:
    migrate(f"sqlite:///{tmp_path}/state.db")
    with closing(sqlite3.connect(tmp_path / "state.db")) as database:
        without = database.execute("SELECT name FROM pragma_table_list WHERE wr ORDER BY name").fetchall()
    assert without == [("snapshot_deltas",), ("snapshot_files",), ("snapshot_leaders",)]


def test_alembic_is_not_loaded_for_a_migrated_database(state_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "alembic", None)
    assert migrate(state_url) == HEAD


def test_version_mismatch_error_says_what_to_do(state: Database, state_url: str) -> None:
    engine = sql_engine(state_url)

    def set_revision(revision: str) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :it"), {"it": revision})

    try:
        set_revision("r9999")
        with pytest.raises(OperatorError, match="newer"):
            require_current(state, state_url)
        with pytest.raises(OperatorError, match="newer"):
            migrate(state_url)
        set_revision("r0009")
        for check in (lambda: require_current(state, state_url), lambda: migrate(state_url)):
            with pytest.raises(OperatorError, match=r"has schema r0009\. This version migrates r0010 and later"):
                check()
        set_revision(FIRST)
        with pytest.raises(OperatorError, match="daybreakd migrate"):
            require_current(state, state_url)
    finally:
        set_revision(HEAD)
        engine.dispose()


@pytest.mark.parametrize("url", ["mysql://localhost/x", "sqlite://", "sqlite:///", "daybreak.db", "sqlite://state.db"])
def test_invalid_state_url_is_refused(url: str) -> None:
    with pytest.raises(OperatorError, match=r"state\.url"):
        open_state(url)


@pytest.mark.parametrize("name", ["a#b.db", "q?x.db", "p%41c.db", "with space.db"])
def test_file_names_may_contain_url_characters(tmp_path: Path, name: str) -> None:
    migrate(f"sqlite:///{tmp_path}/{name}")
    assert [path.name for path in tmp_path.glob("*.db")] == [name]


@pytest.mark.parametrize("url", ["postgres://h/x", "postgresql://h/x", "postgresql+psycopg://h/x"])
def test_every_postgresql_url_scheme_is_accepted(url: str) -> None:
    state = open_state(url)
    assert isinstance(state, PostgresqlState)
    state.close()
