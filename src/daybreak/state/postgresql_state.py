"""The state database on PostgreSQL: pooled, awaited by the event loop, bounded in every wait."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from daybreak.ports.state import Stores
from daybreak.state.failures import is_disconnect, translated, wants_rerun
from daybreak.state.postgresql_connections import (
    BoundedAsyncConnection,
    BoundedConnection,
    NoAnswer,
    arguments_of,
)
from daybreak.state.stores import SqlStores

T = TypeVar("T")

# A builder's statements are larger than a request's, and nobody waits for them in a browser.
_BLOCKING_TIMES = 3
# A request may wait for a connection first, and once more for one that had died.
_WHOLE_SPARE_SECONDS = 3.0
_MOST_RERUNS = 4
_RERUN_AFTER_SECONDS = 0.02


class _Attempt:
    """Whether a transaction that failed may simply be done again."""

    def __init__(self) -> None:
        self.reruns = 0
        self.reconnected = False
        self.at_commit = False

    def may_rerun(self, error: sa.exc.DBAPIError) -> bool:
        """True for a transaction that lost against another one, a few times; and once for a
        connection that had died before, if nothing can have been committed on it."""
        if wants_rerun(error):
            self.reruns += 1
            return self.reruns <= _MOST_RERUNS
        if (
            is_disconnect(error)
            and not isinstance(error.orig, NoAnswer)
            and not self.at_commit
            and not self.reconnected
        ):
            self.reconnected = True
            return True
        return False

    @property
    def pause_seconds(self) -> float:
        return _RERUN_AFTER_SECONDS * self.reruns


class PostgresqlState:
    """The State on PostgreSQL. `work` may be run again: it must do nothing but use the stores."""

    def __init__(self, url: str, *, pool_size: int = 8, wait_seconds: float = 5.0) -> None:
        self._pool_size = pool_size
        self._wait_seconds = wait_seconds
        self._arguments = arguments_of(url, wait_seconds)
        self._engine = blocking_engine(url, wait_seconds * _BLOCKING_TIMES)
        self._lock = threading.Lock()
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._async_engines: tuple[AsyncEngine, AsyncEngine] | None = None
        self._async_connections: weakref.WeakSet[BoundedAsyncConnection] = weakref.WeakSet()

    # --- Blocking: the builder and the command line ------------------------------------------------

    def read(self, work: Callable[[Stores], T]) -> T:
        return self._blocking(work, isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def write(self, work: Callable[[Stores], T]) -> T:
        return self._blocking(work)

    def _blocking(self, work: Callable[[Stores], T], **options: Any) -> T:
        attempt = _Attempt()
        with translated():
            while True:
                try:
                    return self._once(work, attempt, options)
                except sa.exc.DBAPIError as error:
                    if not attempt.may_rerun(error):
                        raise
                time.sleep(attempt.pause_seconds)

    def _once(self, work: Callable[[Stores], T], attempt: _Attempt, options: dict[str, Any]) -> T:
        with self._engine.connect() as connection:
            if options:
                connection.execution_options(**options)
            with connection.begin():
                attempt.at_commit = False
                result = work(SqlStores(connection))
                attempt.at_commit = not options
            return result

    # --- Awaited: the web workers ----------------------------------------------------------------

    async def aread(self, work: Callable[[Stores], T]) -> T:
        return await self._awaited(work, writes=False)

    async def awrite(self, work: Callable[[Stores], T]) -> T:
        return await self._awaited(work, writes=True)

    async def _awaited(self, work: Callable[[Stores], T], *, writes: bool) -> T:
        attempt = _Attempt()
        with translated():
            async with asyncio.timeout(self._wait_seconds + _WHOLE_SPARE_SECONDS):
                while True:
                    try:
                        return await (self._write_once(work, attempt) if writes else self._read_once(work))
                    except sa.exc.DBAPIError as error:
                        if not attempt.may_rerun(error):
                            raise
                    await asyncio.sleep(attempt.pause_seconds)

    async def _read_once(self, work: Callable[[Stores], T]) -> T:
        def in_connection(engine: sa.Engine) -> T:
            with engine.connect() as connection:
                return work(SqlStores(connection))

        # One greenlet for all of it: the asynchronous engine's own methods start one each.
        return cast("T", await greenlet_spawn(in_connection, self._engines_of_loop()[0].sync_engine))

    async def _write_once(self, work: Callable[[Stores], T], attempt: _Attempt) -> T:
        def in_transaction(engine: sa.Engine) -> T:
            with engine.begin() as connection:
                attempt.at_commit = False
                result = work(SqlStores(connection))
                attempt.at_commit = True
            return result

        return cast("T", await greenlet_spawn(in_transaction, self._engines_of_loop()[1].sync_engine))

    def _engines_of_loop(self) -> tuple[AsyncEngine, AsyncEngine]:
        """The pools for reads and writes of the running event loop: their connections are good on
        no other."""
        loop = asyncio.get_running_loop()
        if self._async_engines is not None and self._loop is not None and self._loop() is loop:
            return self._async_engines
        with self._lock:
            self._drop_async()
            self._loop = weakref.ref(loop)
            # Each statement sees what is committed when it starts, in a transaction or not; without
            # one, a read is one exchange with the server instead of three, and leaves nothing to undo.
            reads = self._async_engine(isolation_level="AUTOCOMMIT", pool_reset_on_return=None)
            self._async_engines = (reads, self._async_engine())
            return self._async_engines

    def _async_engine(self, **options: Any) -> AsyncEngine:
        return create_async_engine(
            "postgresql+psycopg://",
            async_creator=self._connect_async,
            # Values of a statement that fails must not reach a log.
            hide_parameters=True,
            # Two pools share what this process may have.
            pool_size=max(1, self._pool_size // 2),
            max_overflow=self._pool_size - max(1, self._pool_size // 2),
            pool_timeout=self._wait_seconds,
            pool_recycle=1800,
            pool_use_lifo=True,
            use_native_hstore=False,
            **options,
        )

    async def _connect_async(self) -> BoundedAsyncConnection:
        connection = await BoundedAsyncConnection.connect(**self._arguments)
        connection.wait_seconds = self._wait_seconds
        self._async_connections.add(connection)
        return connection

    def _drop_async(self) -> None:
        """Forgets the pools of an event loop that may be over: there is nobody left to await them."""
        for engine in self._async_engines or ():
            engine.sync_engine.dispose(close=False)
        self._async_engines = None
        for connection in list(self._async_connections):
            connection.pgconn.finish()

    # --- Both ------------------------------------------------------------------------------------

    def revision(self) -> str | None:
        """The migration the database is at, None when it was never migrated."""
        with translated(), self._engine.connect() as connection:
            if connection.exec_driver_sql("SELECT to_regclass('alembic_version')").scalar() is None:
                return None
            return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()

    def close(self) -> None:
        self._drop_async()
        self._engine.dispose()

    async def aclose(self) -> None:
        if self._loop is not None and self._loop() is asyncio.get_running_loop():
            for engine in self._async_engines or ():
                await engine.dispose()
            self._async_engines = None
        self.close()


def blocking_engine(url: str, wait_seconds: float = 15.0) -> sa.Engine:
    """An engine for one process that may wait: the builder, the command line, migrations. Each
    exchange with the server takes `wait_seconds` at most."""
    arguments = arguments_of(url, wait_seconds)

    def connect() -> BoundedConnection:
        connection = BoundedConnection.connect(**arguments)
        connection.wait_seconds = wait_seconds
        return connection

    return sa.create_engine(
        "postgresql+psycopg://",
        creator=connect,
        # Values of a statement that fails must not reach a log.
        hide_parameters=True,
        pool_size=4,
        max_overflow=12,
        pool_timeout=wait_seconds,
        pool_recycle=1800,
        use_native_hstore=False,
    )
