"""State on PostgreSQL: pooled connections, asynchronous for web workers, with a deadline for every wait."""

import asyncio
import time
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from daybreak.state.errors import is_retryable, translated_errors
from daybreak.state.postgresql_connections import (
    BoundedAsyncConnection,
    BoundedConnection,
    NoAnswer,
    begin_statement,
    connection_parameters,
)
from daybreak.state.stores import Stores

T = TypeVar("T")

# Statements of the builder are larger than those of a request, and no user waits for them.
_BLOCKING_WAIT_FACTOR = 3
# Execution option: the mode of a transaction, in SQL.
_MODE = "transaction_mode"
READ_AT_ONE_INSTANT = {_MODE: "ISOLATION LEVEL REPEATABLE READ READ ONLY"}
"""Options of a connection that reads as of one instant."""
# A request may also wait for a connection from the pool, and for a new one after a disconnect.
_CONNECT_SECONDS = 3.0
_MAX_RETRIES = 4
_RETRY_SECONDS = 0.02


class _Retries:
    """Decides whether a failed transaction may be repeated."""

    def __init__(self) -> None:
        self.count = 0
        self.reconnected = False
        self.at_commit = False

    def allows(self, error: sa.exc.DBAPIError) -> bool:
        """Return whether to repeat the transaction.

        Conflicts with other transactions are retried a few times. A lost connection is replaced once, unless the
        commit may already have happened.
        """
        if is_retryable(error):
            self.count += 1
            return self.count <= _MAX_RETRIES
        if not error.connection_invalidated or isinstance(error.orig, NoAnswer) or self.at_commit or self.reconnected:
            return False
        self.reconnected = True
        return True

    @property
    def pause_seconds(self) -> float:
        return _RETRY_SECONDS * self.count


class PostgresqlState:
    """State on PostgreSQL. `work` may run more than once, so it must only use the stores."""

    def __init__(self, url: str, *, pool_size: int = 8, wait_seconds: float = 5.0) -> None:
        self._pool_size = pool_size
        self._wait_seconds = wait_seconds
        self._parameters = connection_parameters(url)
        self._engine = blocking_engine(url, wait_seconds * _BLOCKING_WAIT_FACTOR)
        self._async_connections: weakref.WeakSet[BoundedAsyncConnection] = weakref.WeakSet()

    # --- Blocking: builder and command line --------------------------------------------------------

    def read(self, work: Callable[[Stores], T]) -> T:
        return self._blocking(work, **READ_AT_ONE_INSTANT)

    def write(self, work: Callable[[Stores], T]) -> T:
        return self._blocking(work)

    def _blocking(self, work: Callable[[Stores], T], **options: Any) -> T:
        retries = _Retries()
        with translated_errors():
            while True:
                try:
                    return _in_transaction(self._engine, work, retries, **options)
                except sa.exc.DBAPIError as error:
                    if not retries.allows(error):
                        raise
                time.sleep(retries.pause_seconds)

    # --- Asynchronous: web workers ---------------------------------------------------------------

    async def aread(self, work: Callable[[Stores], T]) -> T:
        return await self._awaited(work, writes=False)

    async def awrite(self, work: Callable[[Stores], T]) -> T:
        return await self._awaited(work, writes=True)

    async def _awaited(self, work: Callable[[Stores], T], *, writes: bool) -> T:
        retries, run = _Retries(), _in_transaction if writes else _without_transaction
        with translated_errors():
            async with asyncio.timeout(self._wait_seconds + _CONNECT_SECONDS):
                while True:
                    try:
                        engine = self._async_engines[writes].sync_engine
                        # One greenlet for all statements. The methods of AsyncEngine start one each.
                        return cast("T", await greenlet_spawn(run, engine, work, retries))
                    except sa.exc.DBAPIError as error:
                        if not retries.allows(error):
                            raise
                    await asyncio.sleep(retries.pause_seconds)

    @cached_property
    def _async_engines(self) -> tuple[AsyncEngine, AsyncEngine]:
        """Engines of reads and writes, for one event loop: connections cannot move to another one."""
        # READ COMMITTED statements see the same data with or without a transaction. Autocommit saves two of three
        # exchanges per read, and the reset when a connection returns to the pool.
        reads, writes = self._async_engine(pool_reset_on_return=None), self._async_engine()
        _begin_transactions(writes.sync_engine, self._wait_seconds)
        return reads, writes

    def _async_engine(self, **options: Any) -> AsyncEngine:
        return create_async_engine(
            "postgresql+psycopg://",
            async_creator=self._connect_async,
            # Parameters of failed statements must not reach a log.
            hide_parameters=True,
            # The two pools share the connections of this process.
            pool_size=max(1, self._pool_size // 2),
            max_overflow=self._pool_size - max(1, self._pool_size // 2),
            pool_timeout=self._wait_seconds,
            pool_recycle=1800,
            pool_use_lifo=True,
            use_native_hstore=False,
            **options,
        )

    async def _connect_async(self) -> BoundedAsyncConnection:
        connection = await BoundedAsyncConnection.connect(**self._parameters)
        connection.wait_seconds = self._wait_seconds
        self._async_connections.add(connection)
        return connection

    # --- Shared ----------------------------------------------------------------------------------

    def truncate_log(self) -> None:
        """Do nothing: the server keeps its log."""

    def close(self) -> None:
        # Their event loop may be closed, so they cannot be awaited.
        for connection in list(self._async_connections):
            connection.pgconn.finish()
        self._engine.dispose()

    async def aclose(self) -> None:
        for engine in self._async_engines:
            await engine.dispose()
        self.close()


def _in_transaction(engine: sa.Engine, work: Callable[[Stores], T], retries: _Retries, **options: Any) -> T:
    with engine.connect() as connection:
        if options:
            connection.execution_options(**options)
        with connection.begin():
            retries.at_commit = False
            result = work(Stores(connection))
            retries.at_commit = not options
        return result


def _without_transaction(engine: sa.Engine, work: Callable[[Stores], T], _retries: _Retries) -> T:
    with engine.connect() as connection:
        return work(Stores(connection))


def blocking_engine(url: str, wait_seconds: float = 15.0) -> sa.Engine:
    """Return an engine for a process that may block. An exchange takes up to `wait_seconds`."""
    parameters = connection_parameters(url)

    def connect() -> BoundedConnection:
        connection = BoundedConnection.connect(**parameters)
        connection.wait_seconds = wait_seconds
        return connection

    engine = sa.create_engine(
        "postgresql+psycopg://",
        creator=connect,
        # Parameters of failed statements must not reach a log.
        hide_parameters=True,
        pool_size=4,
        max_overflow=12,
        pool_timeout=wait_seconds,
        pool_recycle=1800,
        use_native_hstore=False,
    )
    _begin_transactions(engine, wait_seconds)
    return engine


def _begin_transactions(engine: sa.Engine, timeout_seconds: float) -> None:
    """Begin the transactions of an engine, whose connections are in autocommit mode, with their settings."""

    def begin(connection: sa.Connection) -> None:
        mode = connection.get_execution_options().get(_MODE, "")
        connection.exec_driver_sql(begin_statement(timeout_seconds, mode))

    sa.event.listen(engine, "begin", begin)
