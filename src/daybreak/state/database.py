"""Construction of the state database from its URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import sqlalchemy as sa

from daybreak.domain.errors import OperatorError
from daybreak.state.sqlite_file import sqlite_engine
from daybreak.state.sqlite_state import SqliteState

if TYPE_CHECKING:
    from daybreak.state.postgresql_state import PostgresqlState

Database: TypeAlias = "SqliteState | PostgresqlState"

_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


def sqlite_path(url: str) -> Path | None:
    """Return the file of `sqlite:///relative/path` or `sqlite:////absolute/path`, None for other URLs.

    Raises OperatorError if the URL names no file.
    """
    if not url.startswith("sqlite:"):
        return None
    # Not parsed as a URL: `#`, `?` and `%` are part of the file name.
    path = url.removeprefix("sqlite:///")
    if path in (url, "", "/"):
        raise OperatorError(
            f"state.url {url!r} names no file. Use sqlite:///state.db, or four slashes for an absolute path."
        )
    return Path(path)


def postgresql_url(url: str) -> str:
    """Return the URL in the form that libpq reads. Raises OperatorError for other kinds of URL."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _POSTGRESQL:
        raise OperatorError(f"state.url begins with {scheme!r}. Use a sqlite:/// or postgresql:// URL.")
    return f"postgresql://{rest}"


def redacted_url(url: str) -> str:
    """Return the URL without password and parameters, which may contain one too."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{hosts}{parts.path}"


def open_state(url: str, *, pool_size: int = 8, wait_seconds: float = 5.0) -> Database:
    """Return the State of a `sqlite:///...` or `postgresql://...` URL, without connecting to it.

    Args:
        url: Value of `state.url`.
        pool_size: Maximum number of PostgreSQL connections that a process keeps.
        wait_seconds: Maximum wait for one PostgreSQL response, or for the lock of a SQLite file.

    Raises:
        OperatorError: The URL is invalid.
    """
    path = sqlite_path(url)
    if path is not None:
        return SqliteState(path, wait_seconds=wait_seconds)
    # Loading the driver takes 0.1 s, which commands on SQLite need not spend.
    import psycopg

    from daybreak.state.postgresql_state import PostgresqlState

    try:
        return PostgresqlState(postgresql_url(url), pool_size=pool_size, wait_seconds=wait_seconds)
    except psycopg.ProgrammingError as error:
        raise OperatorError(
            "state.url is not a PostgreSQL URL. Use postgresql://user:password@host:5432/database."
        ) from error


@contextmanager
def transaction(url: str, wait_seconds: float, *, reads: bool = False) -> Iterator[sa.Connection]:
    """Open a separate connection with a transaction, committed at the end of the block. With `reads`, it reads the
    database as of one instant.
    """
    path, options = sqlite_path(url), {}
    if path is not None:
        engine = sqlite_engine(path, wait_seconds)
    else:
        from daybreak.state.postgresql_state import READ_AT_ONE_INSTANT, blocking_engine

        engine = blocking_engine(postgresql_url(url), wait_seconds)
        options = READ_AT_ONE_INSTANT if reads else {}
    try:
        with engine.connect() as connection:
            connection.execution_options(**options)
            with connection.begin():
                if path is not None:
                    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
                yield connection
    finally:
        engine.dispose()
