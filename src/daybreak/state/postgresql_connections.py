"""PostgreSQL connections with a deadline for every exchange.

A server that hangs keeps its sockets open, and neither TCP keepalives nor its own statement timeout end the wait.
"""

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg
import psycopg.conninfo
import psycopg.waiting

R = TypeVar("R")

_CHECK_INTERVAL_SECONDS = 0.1


class NoAnswer(psycopg.OperationalError):
    """The server did not answer before the deadline. An immediate retry would wait as long again."""


def _with_deadline(deadline: float, exchange: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
    """Run the exchange and raise NoAnswer after the deadline. The driver's wait functions resume it at intervals."""
    try:
        wanted = next(exchange)
        while True:
            ready = yield wanted
            if not ready and monotonic() > deadline:
                raise NoAnswer("the server did not answer in time")
            wanted = exchange.send(ready)
    except StopIteration as end:
        answer: R = end.value
        return answer


class BoundedConnection(psycopg.Connection[Any]):
    """Blocking connection. An exchange takes up to `wait_seconds`."""

    wait_seconds: float = 15.0

    def wait(self, gen: Any, interval: float = _CHECK_INTERVAL_SECONDS, timeout: float | None = None) -> Any:
        """Run one exchange. Raises NoAnswer."""
        limit = self.wait_seconds if timeout is None else timeout
        try:
            return psycopg.waiting.wait(_with_deadline(monotonic() + limit, gen), self.pgconn.socket, interval=interval)
        except BaseException:
            _close_if_active(self.pgconn)
            raise


class BoundedAsyncConnection(psycopg.AsyncConnection[Any]):
    """Asynchronous connection. An exchange takes up to `wait_seconds`.

    A cancelled exchange closes the connection. A cancel request would wait for a server that may hang.
    """

    wait_seconds: float = 5.0

    async def wait(self, gen: Any, interval: float = _CHECK_INTERVAL_SECONDS, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - the driver's signature
        """Run one exchange. Raises NoAnswer."""
        limit = self.wait_seconds if timeout is None else timeout
        try:
            return await psycopg.waiting.wait_async(
                _with_deadline(monotonic() + limit, gen), self.pgconn.socket, interval=interval
            )
        except BaseException:
            _close_if_active(self.pgconn)
            raise


def _close_if_active(pgconn: Any) -> None:
    """Close a connection that is in the middle of a response. After an error of the server it remains usable."""
    if pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
        pgconn.finish()


def connection_parameters(url: str) -> dict[str, Any]:
    """Return the connection parameters of a `postgresql://` URL.

    A transaction may be in another session than the one before (PgBouncer in transaction mode), and sessions are shared
    with other clients: no prepared statements, and no settings outside of a transaction. `begin_statement` has those.

    Raises psycopg.ProgrammingError if the URL is invalid.
    """
    return {
        "connect_timeout": 4,
        "application_name": "daybreak",
        "client_encoding": "UTF8",
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        # A standby may not have received the latest revocations.
        "target_session_attrs": "primary",
        **psycopg.conninfo.conninfo_to_dict(url),
        # Transactions begin with `begin_statement`.
        "autocommit": True,
        "prepare_threshold": None,
    }


def begin_statement(timeout_seconds: float, mode: str = "") -> str:
    """Return the statements that begin a transaction, in one exchange. The server ends a statement, a wait for a lock
    and an idle transaction, so that none continues for a client that has disconnected.
    """
    milliseconds = int(timeout_seconds * 1000)
    return (
        f"BEGIN {mode}; SET LOCAL TimeZone = 'UTC'; SET LOCAL statement_timeout = {milliseconds}; "
        f"SET LOCAL lock_timeout = {milliseconds}; SET LOCAL idle_in_transaction_session_timeout = 60000"
    )
