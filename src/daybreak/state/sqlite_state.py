"""State on one SQLite file.

Commits are durable before they are acknowledged (write-ahead log, `synchronous=FULL`). Asynchronous reads run in the
event loop: a read takes about 6 us, less than a switch to a thread. Asynchronous writes go to one thread, which commits
waiting transactions together.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from daybreak.domain.errors import Unavailable
from daybreak.state.errors import translated_errors
from daybreak.state.sqlite_file import in_transaction, sqlite_engine
from daybreak.state.stores import Stores
from daybreak.state.write_queue import WriteQueue

T = TypeVar("T")

# In WAL mode reads wait only for a recovery. The limit is short, because they block the event loop.
_READ_WAIT_SECONDS = 1.0
_LONG_WRITE_SECONDS = 0.25
_YIELD_SECONDS = 0.11


class _Reader:
    """Open connection for reads in the event loop.

    Reads run without a transaction, which would add two statements. Each statement sees what is committed when it
    starts, as on PostgreSQL.
    """

    def __init__(self, path: Path) -> None:
        self._engine = sqlite_engine(path, _READ_WAIT_SECONDS)
        self._stores: Stores | None = None
        # Several event loops in one process must not use the connection at the same time.
        self._lock = threading.Lock()

    def run(self, work: Callable[[Stores], T]) -> T:
        with self._lock:
            if self._stores is None:
                self._stores = Stores(self._engine.connect())
            try:
                return work(self._stores)
            except (sqlite3.Error, sa.exc.DBAPIError):
                self._close_connection()
                raise

    def _close_connection(self) -> None:
        """Close the connection. The next read opens a new one."""
        if self._stores is not None:
            self._stores.connection.invalidate()
            self._stores.connection.close()
        self._stores = None

    def close(self) -> None:
        with self._lock:
            self._close_connection()
            self._engine.dispose()


class SqliteState:
    """State on a SQLite file. `work` may run more than once, so it must only use the stores."""

    def __init__(self, path: Path, *, wait_seconds: float = 5.0) -> None:
        self.path = path
        self._wait_seconds = wait_seconds
        self._engine = sqlite_engine(path, wait_seconds)
        self._reader = _Reader(path)
        self._queue = WriteQueue(self._engine, wait_seconds)

    def read(self, work: Callable[[Stores], T]) -> T:
        with translated_errors(), self._engine.connect() as connection:
            return in_transaction(connection, "BEGIN", lambda: work(Stores(connection)))

    def write(self, work: Callable[[Stores], T]) -> T:
        began = time.monotonic()
        with translated_errors(), self._engine.connect() as connection:
            result = in_transaction(connection, "BEGIN IMMEDIATE", lambda: work(Stores(connection)))
        if time.monotonic() - began > _LONG_WRITE_SECONDS:
            # SQLite polls for the lock at intervals of up to 0.1 s. Without this pause, a builder with many long
            # transactions would keep other writers waiting. time.sleep would fail under libfaketime.
            threading.Event().wait(_YIELD_SECONDS)
        return result

    async def aread(self, work: Callable[[Stores], T]) -> T:
        try:
            return self._reader.run(work)
        except Exception:
            with translated_errors():
                raise

    async def awrite(self, work: Callable[[Stores], T]) -> T:
        with translated_errors():
            return await asyncio.wrap_future(self._queue.submit(work))

    def truncate_log(self) -> None:
        until = time.monotonic() + self._wait_seconds
        with translated_errors(), self._engine.connect() as connection:
            while connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]:
                if time.monotonic() > until:
                    raise Unavailable(
                        "The write-ahead log of the state database is in use, and may contain erased data. Run the "
                        "command again.",
                        code="state_unavailable",
                    )
                threading.Event().wait(_YIELD_SECONDS)

    def close(self) -> None:
        self._queue.close()
        self._reader.close()
        self._engine.dispose()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)
