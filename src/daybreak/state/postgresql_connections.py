"""Connections to PostgreSQL that never wait for ever.

A server that hangs keeps its sockets open, so neither keepalives nor its own statement time-out
help: the client must stop waiting by itself. Every exchange with the server therefore has a
deadline here; past it the connection is dropped and the error says so.
"""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg
import psycopg.conninfo
import psycopg.waiting

RV = TypeVar("RV")

_LOOK_EVERY_SECONDS = 0.1


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time. Trying again at once would only wait as long again."""


def _until(deadline: float, exchange: Generator[Any, Any, RV]) -> Generator[Any, Any, RV]:
    """The exchange with the server, ended by NoAnswer once the deadline is over. The
    driver's loops wake it regularly with nothing ready."""
    try:
        wanted = next(exchange)
        while True:
            ready = yield wanted
            if not ready and monotonic() > deadline:
                raise NoAnswer("the server did not answer in time")
            wanted = exchange.send(ready)
    except StopIteration as end:
        answer: RV = end.value
        return answer


class BoundedConnection(psycopg.Connection[Any]):
    """A blocking connection; each exchange takes `wait_seconds` at most."""

    wait_seconds: float = 15.0

    def wait(self, gen: Any, interval: float = _LOOK_EVERY_SECONDS, timeout: float | None = None) -> Any:
        """Runs one exchange; raises NoAnswer past its deadline."""
        limit = self.wait_seconds if timeout is None else timeout
        try:
            return psycopg.waiting.wait(_until(monotonic() + limit, gen), self.pgconn.socket, interval=interval)
        except BaseException:
            _drop_if_unfinished(self.pgconn)
            raise


class BoundedAsyncConnection(psycopg.AsyncConnection[Any]):
    """An awaitable connection; each exchange takes `wait_seconds` at most. One that is cancelled
    drops the connection at once instead of asking a server that may hang to cancel."""

    wait_seconds: float = 5.0

    async def wait(self, gen: Any, interval: float = _LOOK_EVERY_SECONDS, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - the driver's signature
        """Runs one exchange; raises NoAnswer past its deadline."""
        limit = self.wait_seconds if timeout is None else timeout
        try:
            return await psycopg.waiting.wait_async(
                _until(monotonic() + limit, gen), self.pgconn.socket, interval=interval
            )
        except BaseException:
            _drop_if_unfinished(self.pgconn)
            raise


def _drop_if_unfinished(pgconn: Any) -> None:
    """An error that the server sent leaves the connection ready for more; a wait that was given up
    leaves it in the middle of an answer, good for nothing."""
    if pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
        pgconn.finish()


def arguments_of(url: str, statement_timeout_seconds: float) -> dict[str, Any]:
    """The connection parameters of a `postgresql://` URL, with bounds where it sets none.
    Raises psycopg.ProgrammingError when the URL cannot be read."""
    milliseconds = int(statement_timeout_seconds * 1000)
    given = psycopg.conninfo.conninfo_to_dict(url)
    # The server gives up by itself too, so that nothing runs on for a client that has gone.
    options = (
        f"-c timezone=UTC -c statement_timeout={milliseconds} -c lock_timeout={milliseconds} "
        f"-c idle_in_transaction_session_timeout=60000 {given.pop('options', '')}"
    )
    return {
        "connect_timeout": 4,
        "application_name": "daybreak",
        "client_encoding": "UTF8",
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        **given,
        "options": options.strip(),
    }
