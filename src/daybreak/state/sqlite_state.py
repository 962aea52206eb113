"""The state database as one SQLite file.

A commit is on the disk before it is acknowledged (write-ahead log and `synchronous=FULL`). Reads
run where they are asked for: 6 us in the event loop, less than handing them to a thread costs.
Writes of the event loop go to one thread, which commits what has queued up together.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from daybreak.ports.state import Stores
from daybreak.state.failures import translated
from daybreak.state.sqlite_file import engine_of, in_transaction
from daybreak.state.stores import SqlStores
from daybreak.state.write_queue import WriteQueue

T = TypeVar("T")

# A read waits for nobody in this mode but for a recovery; the event loop must not stand still long.
_READ_WAIT_SECONDS = 1.0
_LONG_WRITE_SECONDS = 0.25
_LOOK_SECONDS = 0.11


class _Reader:
    """One connection kept open for reads in the event loop, with its stores. Each statement sees what is committed when
    it starts, as on PostgreSQL; a transaction around it would be two statements more.
    """

    def __init__(self, path: Path) -> None:
        self._engine = engine_of(path, _READ_WAIT_SECONDS)
        self._connection: sa.Connection | None = None
        self._stores: SqlStores | None = None
        # More than one event loop in a process is rare, but must not share a connection.
        self._lock = threading.Lock()

    def run(self, work: Callable[[Stores], T]) -> T:
        with self._lock:
            try:
                return work(self._stores or self._open())
            except (sqlite3.Error, sa.exc.DBAPIError):
                self.close_connection()
                raise

    def _open(self) -> SqlStores:
        self._connection = self._engine.connect()
        self._stores = SqlStores(self._connection)
        return self._stores

    def close_connection(self) -> None:
        """The next read opens another one."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
        self._connection = self._stores = None

    def close(self) -> None:
        with self._lock:
            self.close_connection()
            self._engine.dispose()


class SqliteState:
    """The State on a SQLite file. `work` may be run again when it fails beside others."""

    def __init__(self, path: Path, *, wait_seconds: float = 5.0) -> None:
        self.path = path
        self._engine = engine_of(path, wait_seconds)
        self._reader = _Reader(path)
        self._queue = WriteQueue(self._engine, wait_seconds)

    def read(self, work: Callable[[Stores], T]) -> T:
        with translated(), self._engine.connect() as connection:
            return in_transaction(connection, "BEGIN", lambda: work(SqlStores(connection)))

    def write(self, work: Callable[[Stores], T]) -> T:
        began = time.monotonic()
        with translated(), self._engine.connect() as connection:
            result = in_transaction(connection, "BEGIN IMMEDIATE", lambda: work(SqlStores(connection)))
        if time.monotonic() - began > _LONG_WRITE_SECONDS:
            # Those who wait for the file look now and then, at most so far apart: a builder that
            # writes one piece after the other must not always be there first.
            time.sleep(_LOOK_SECONDS)
        return result

    async def aread(self, work: Callable[[Stores], T]) -> T:
        try:
            return self._reader.run(work)
        except Exception:
            with translated():
                raise

    async def awrite(self, work: Callable[[Stores], T]) -> T:
        with translated():
            return await asyncio.wrap_future(self._queue.submit(work))

    def revision(self) -> str | None:
        """The migration the database is at, None when it was never migrated."""
        with translated(), self._engine.connect() as connection:
            if not sa.inspect(connection).has_table("alembic_version"):
                return None
            return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()

    def close(self) -> None:
        self._queue.close()
        self._reader.close()
        self._engine.dispose()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)
