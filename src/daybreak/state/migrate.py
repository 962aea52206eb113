"""Bringing a state database to the shape this version needs, by one node at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from daybreak.domain.errors import OperatorError
from daybreak.state.database import Database, open_state, postgresql_url, shown_url, sqlite_path
from daybreak.state.failures import translated
from daybreak.state.migrations import HEAD
from daybreak.state.sqlite_file import engine_of

# Any number that is ours: who holds it migrates, the others wait.
_ADVISORY_LOCK = 0x0DA7_B4EA
_WAIT_SECONDS = 120.0


def require_current(state: Database, url: str) -> None:
    """Raises OperatorError unless the database has the shape that this version needs."""
    found = _revision(state)
    if found == HEAD:
        return
    named = f"The state database {getattr(state, 'path', None) or shown_url(url)}"
    if found is None:
        raise OperatorError(
            f"{named} is empty or not there: see that state.url is right; to make it, run `daybreakd migrate`."
        )
    if found > HEAD:
        raise OperatorError(
            f"{named} is at {found}, newer than this version knows ({HEAD}): install the newer Daybreak."
        )
    raise OperatorError(f"{named} is at {found}, this version needs {HEAD}: run `daybreakd migrate`.")


def _revision(state: Database) -> str | None:
    """The migration the database is at, None for one that is empty or not there."""
    path = getattr(state, "path", None)
    return None if path is not None and not path.exists() else state.revision()


def migrate(url: str) -> str:
    """Brings the database to this version's shape and returns the revision; does nothing to one
    that is there already. Of several nodes that try at once, one works and the others wait.
    Creates a SQLite file (mode 0600) and its folder."""
    with closing(open_state(url)) as state:
        if _revision(state) == HEAD:
            return HEAD
    # Loaded for a migration alone: it costs the start of the service a tenth of a second.
    from alembic import command
    from alembic.util import CommandError

    with translated(), _connection(url) as connection:
        script = _script()
        script.attributes["connection"] = connection
        try:
            command.upgrade(script, "head")
        except CommandError as error:
            raise OperatorError(
                f"The state database cannot be migrated to {HEAD}: {error}. Was it made by a newer Daybreak?"
            ) from error
    return HEAD


@contextmanager
def _connection(url: str) -> Iterator[sa.Connection]:
    """A connection within a transaction that no other migration shares."""
    path = sqlite_path(url)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        engine, begin = engine_of(path, _WAIT_SECONDS), "BEGIN IMMEDIATE"
    else:
        from daybreak.state.postgresql_state import blocking_engine

        engine, begin = (
            blocking_engine(postgresql_url(url), _WAIT_SECONDS),
            f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})",
        )
    try:
        with engine.connect() as connection, connection.begin():
            connection.exec_driver_sql(begin)
            yield connection
    finally:
        engine.dispose()


def _script() -> Any:
    from alembic.config import Config

    context = Config()
    context.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    context.set_main_option("path_separator", "os")
    return context
