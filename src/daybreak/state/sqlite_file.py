"""Connections and transactions on a SQLite file."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

T = TypeVar("T")

_RETRY_SECONDS = 0.02


def connect(path: Path, wait_seconds: float) -> sqlite3.Connection:
    """Connect to an existing file. Raises sqlite3.OperationalError if it does not exist."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=wait_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _enable_write_ahead_log(connection, wait_seconds)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA trusted_schema = OFF")
        # Erased data must not stay in unused pages. Not every build of SQLite has this default.
        connection.execute("PRAGMA secure_delete = ON")
        # Truncate the log after a checkpoint: a large manifest leaves a log of gigabytes.
        connection.execute("PRAGMA journal_size_limit = 67108864")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _enable_write_ahead_log(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """Switch the file to write-ahead logging, which persists.

    SQLite ignores the busy timeout for this statement (https://sqlite.org/wal.html), so it is retried here.
    """
    until = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_RETRY_SECONDS)


def sqlite_engine(path: Path, wait_seconds: float = 5.0) -> sa.Engine:
    """Return an engine without implicit transactions. Use `in_transaction`."""
    return sa.create_engine(
        "sqlite://",
        creator=lambda: connect(path, wait_seconds),
        # Parameters of failed statements must not reach a log.
        hide_parameters=True,
        poolclass=sa.QueuePool,
        pool_size=4,
        max_overflow=60,
        pool_timeout=wait_seconds,
        # No rollback needed: `in_transaction` ends every transaction.
        pool_reset_on_return=None,
    )


def in_transaction(connection: sa.Connection, begin: str, work: Callable[[], T]) -> T:
    """Run `work` between the statement `begin` and COMMIT. Roll back if it raises."""
    driver: Any = connection.connection.driver_connection
    driver.execute(begin)
    try:
        result = work()
        driver.execute("COMMIT")
    except BaseException:
        # SQLite has already rolled back after a full disk or an I/O error.
        if driver.in_transaction:
            driver.execute("ROLLBACK")
        raise
    return result
