"""Connections to a SQLite file: how they are set up, and how a transaction on one runs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

T = TypeVar("T")

_LOOK_SECONDS = 0.02


def connect(path: Path, wait_seconds: float) -> sqlite3.Connection:
    """A connection to a file that is there; raises sqlite3.OperationalError when it is not."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=wait_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _write_ahead(connection, wait_seconds)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA trusted_schema = OFF")
        # The log of a large manifest is given back to the disk once it is in the database.
        connection.execute("PRAGMA journal_size_limit = 67108864")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """The log for writes, once a file for ever. Whoever makes it so beside a writer of a file that is new is refused at
    once, where SQLite waits for everything else.
    """
    until = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_LOOK_SECONDS)


def engine_of(path: Path, wait_seconds: float = 5.0) -> sa.Engine:
    """An engine whose transactions begin and end by explicit statements alone."""
    return sa.create_engine(
        "sqlite://",
        creator=lambda: connect(path, wait_seconds),
        # Values of a statement that fails must not reach a log.
        hide_parameters=True,
        poolclass=sa.QueuePool,
        pool_size=4,
        max_overflow=60,
        pool_timeout=wait_seconds,
        # Nothing to undo: `in_transaction` below ends each transaction itself.
        pool_reset_on_return=None,
    )


def in_transaction(connection: sa.Connection, begin: str, work: Callable[[], T]) -> T:
    """Runs `work` between `begin` and COMMIT; rolls back when it raises."""
    driver: Any = connection.connection.driver_connection
    driver.execute(begin)
    try:
        result = work()
        driver.execute("COMMIT")
    except BaseException:
        # SQLite ends the transaction by itself when the disk is full or fails.
        if driver.in_transaction:
            driver.execute("ROLLBACK")
        raise
    return result
