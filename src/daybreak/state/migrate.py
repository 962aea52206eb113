"""Migration of a state database to the schema of this version. One node migrates, others wait."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from daybreak.domain.errors import OperatorError
from daybreak.state.create import create_schema
from daybreak.state.database import Database, open_state, redacted_url, sqlite_path, transaction
from daybreak.state.errors import translated_errors
from daybreak.state.migrations import HEAD

# Arbitrary key of the PostgreSQL advisory lock that serializes migrations.
_ADVISORY_LOCK = 0x0DA7_B4EA
_WAIT_SECONDS = 120.0


def require_current(state: Database, url: str) -> None:
    """Raise OperatorError unless the database has the schema of this version."""
    found = _revision(state)
    if found == HEAD:
        return
    named = f"The state database {getattr(state, 'path', None) or redacted_url(url)}"
    if found is None:
        raise OperatorError(
            f"{named} does not exist or is empty. Check state.url, or run `daybreakd migrate` to create it."
        )
    if found > HEAD:
        raise OperatorError(
            f"{named} has schema {found}, which is newer than {HEAD} of this version. Install the newer Daybreak."
        )
    raise OperatorError(f"{named} has schema {found}, but this version needs {HEAD}. Run `daybreakd migrate`.")


def _revision(state: Database) -> str | None:
    """Return the schema revision of the database, None if it is missing or empty."""
    path = getattr(state, "path", None)
    return None if path is not None and not path.exists() else state.revision()


def migrate(url: str) -> str:
    """Migrate the database to the schema of this version, if necessary, and return the revision.

    If several nodes migrate at the same time, one does the work and the others wait. A SQLite file is created with
    its folder, mode 0600.
    """
    with closing(open_state(url)) as state:
        if _revision(state) == HEAD:
            return HEAD
    # Loading Alembic takes 0.1 s, which an ordinary start need not spend.
    from alembic import command
    from alembic.util import CommandError

    with translated_errors(), _connection(url) as connection:
        config = _alembic_config()
        config.attributes["connection"] = connection
        try:
            if sa.inspect(connection).has_table("alembic_version"):
                command.upgrade(config, "head")
            else:
                create_schema(connection)
                command.stamp(config, "head")
        except CommandError as error:
            raise OperatorError(
                f"The state database cannot be migrated to {HEAD}: {error}. "
                "If a newer Daybreak created it, install that version."
            ) from error
    return HEAD


@contextmanager
def _connection(url: str) -> Iterator[sa.Connection]:
    """Open a connection with a transaction that excludes other migrations."""
    path = sqlite_path(url)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    with transaction(url, _WAIT_SECONDS) as connection:
        if path is None:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
        yield connection


def _alembic_config() -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
