"""One exported snapshot of a PostgreSQL server, and the connections that read in it.

A connection of its own keeps the snapshot (`REPEATABLE READ READ ONLY`) and answers small questions;
others stream in the same snapshot over ADBC. A connection is used again once its stream came to its
end, so a reading takes three in all; one whose stream broke is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import adbc_driver_manager
import adbc_driver_postgresql
import psycopg
from adbc_driver_manager import AdbcConnection, AdbcStatement
from psycopg import conninfo

from daybreak.domain.errors import SourceError, SourceUnavailable
from daybreak.sources.landing import ArrowStream, StreamBroken
from daybreak.sources.lent_stream import LentStream

# Bounded waits for a server that is gone; both drivers take libpq's own parameters.
_CONNECTION = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "application_name": "daybreak",
}
# A transaction that lasts as long as the run must not be ended for being idle or long, whatever the role's settings.
# Servers know different ones of these.
_NO_LIMITS = (
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN "
    "('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')"
)
# Databases of other encodings are recoded by the server, and what they hold is always the same. Where a policy would
# hide rows from the role, the server refuses instead. Who changes a table waits for the keeper, and streams wait behind
# them; the server sees no deadlock in that, as the keeper waits for nothing of its own.
_PLAIN = "SET TIME ZONE 'UTC'; SET client_encoding TO 'UTF8'; SET row_security TO off; SET lock_timeout TO '10s'"
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BATCH_OPTION = "adbc.postgresql.batch_size_hint_bytes"
# A sixteenth of the driver's own: buffers are used again, which is a tenth less work and less memory.
_BATCH_BYTES = 1 << 20
# Gone, going away or cancelled (08, 57), short of something (53), cancelled by the replica's recovery or a conflict
# (40), a lock that was not to be had in time (55P03).
_TRANSIENT = ("08", "40", "53", "57", "55P03")
_STATEMENT_CANCELLED = "57014"


class ServerSnapshot:
    """What every connection of one reading sees. `keeper` holds it open and is for one thread."""

    def __init__(self, location: str, keeper: psycopg.Connection[Any], name: str, timeout_seconds: int) -> None:
        self.keeper = keeper
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._lock = Lock()
        # The driver asks the server for its types, on a connection for a moment; the keeper works meanwhile.
        self._opener = ThreadPoolExecutor(1, thread_name_prefix="driver")
        self._database = self._opener.submit(adbc_driver_postgresql.connect, _adbc_uri(location))
        self._idle: deque[AdbcConnection] = deque()
        self._streaming: set[AdbcConnection] = set()

    @contextmanager
    def stream(self, sql: str, *, one_of_several: bool = False) -> Iterator[ArrowStream]:
        """The rows of one SELECT, for any thread. `one_of_several` are read side by side: the server makes each in one
        process, without workers that pass its rows on. Raises SourceError, SourceUnavailable.
        """
        with server_faults("The source", timeout_seconds=self._timeout_seconds):
            try:
                connection = self._idle.popleft()
            except IndexError:
                connection = self._connect()
            with self._lock:
                self._streaming.add(connection)
            try:
                _execute(connection, f"SET max_parallel_workers_per_gather TO {0 if one_of_several else 'DEFAULT'}")
                with AdbcStatement(connection) as statement:
                    statement.set_options(**{_BATCH_OPTION: str(_BATCH_BYTES)})
                    statement.set_sql_query(sql)
                    rows, _ = statement.execute_query()
                    with closing(LentStream(rows)) as lent:
                        try:
                            yield lent
                        except StreamBroken as broken:
                            broken.sqlstate = lent.sqlstate()
                            raise
            except BaseException:
                with self._lock:
                    self._streaming.discard(connection)
                connection.close()
                raise
            with self._lock:
                self._streaming.discard(connection)
            self._idle.append(connection)

    def cancel(self) -> None:
        """Asks the server to end the statements of all streams that are open now; for any thread."""
        with self._lock:
            for connection in self._streaming:
                # A server that is gone has ended them.
                with suppress(adbc_driver_manager.Error):
                    connection.cancel()

    def close(self) -> None:
        """Closes the connections that wait; call it when no stream is open."""
        while self._idle:
            self._idle.popleft().close()
        self._opener.shutdown()
        if self._database.exception() is None:
            self._database.result().close()

    def _connect(self) -> AdbcConnection:
        connection = AdbcConnection(self._database.result())
        try:
            _execute(connection, _PLAIN)
            _execute(connection, _NO_LIMITS)
            if self._timeout_seconds:
                _execute(connection, f"SET statement_timeout = {self._timeout_seconds * 1000:d}")
            _execute(connection, _BEGIN)
            _execute(connection, f"SET TRANSACTION SNAPSHOT '{self._name}'")
        except BaseException:
            connection.close()
            raise
        return connection


def _execute(connection: AdbcConnection, sql: str) -> None:
    with AdbcStatement(connection) as statement:
        statement.set_sql_query(sql)
        statement.execute_update()


@contextmanager
def open_snapshot(location: str, *, timeout_seconds: int) -> Iterator[ServerSnapshot]:
    """Exports a snapshot for as long as the context lasts. Each SELECT that is streamed may take `timeout_seconds`,
    0 for the server's own limit. Raises SourceError, SourceUnavailable.
    """
    with reading_connection(location) as keeper:
        with server_faults("The source"):
            row = keeper.execute("SELECT pg_export_snapshot()").fetchone()
        if row is None:
            raise SourceUnavailable("The source exported no snapshot.")
        with closing(ServerSnapshot(location, keeper, str(row[0]), timeout_seconds)) as snapshot:
            yield snapshot


@contextmanager
def reading_connection(location: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection inside a transaction that only reads, in UTC. Raises SourceError, SourceUnavailable."""
    given = _parts_of(location)
    with server_faults("source.location"):
        connection = psycopg.connect(location, autocommit=True, **_missing_from(given))
    with closing(connection):
        with server_faults("The source"):
            connection.execute(_PLAIN)
            connection.execute(_NO_LIMITS)
            connection.execute(_BEGIN)
        yield connection


@contextmanager
def server_faults(what: str, *, timeout_seconds: float = 0) -> Iterator[None]:
    """Both drivers' errors as ours, by the server's code for them: transient when another try may help. `what` begins
    the message. The code of a cancelled statement is the same whoever cancelled it, and the words are in the server's
    language: it ran into its `timeout_seconds` when they are over.
    """
    began = monotonic()
    try:
        yield
    except (psycopg.Error, adbc_driver_manager.Error, StreamBroken) as error:
        message = f"{what} (PostgreSQL): {first_line(error)}"
        sqlstate = error.sqlstate
        if sqlstate == _STATEMENT_CANCELLED and 0 < timeout_seconds <= monotonic() - began:
            raise SourceError(f"{message} Raise source.statement_timeout or give the server an index.") from error
        if sqlstate is None or sqlstate.startswith(_TRANSIENT):
            raise SourceUnavailable(message) from error
        raise SourceError(message) from error


def first_line(error: Exception) -> str:
    """The first line of what a driver says."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _parts_of(location: str) -> dict[str, Any]:
    """The parameters in an address. Raises SourceError, which says nothing of what may be a password."""
    try:
        if not location.startswith(("postgresql://", "postgres://")):
            raise psycopg.ProgrammingError
        return conninfo.conninfo_to_dict(location)
    except psycopg.ProgrammingError:
        raise SourceError(
            "source.location is no address of PostgreSQL: write postgresql://reader@host/database, parameters of "
            "libpq after a question mark, and %-codes for other letters in names and passwords."
        ) from None


def _missing_from(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _CONNECTION.items() if name not in given}


def _adbc_uri(location: str) -> str:
    """The same server for the other driver, which takes nothing but an address."""
    parts = urlsplit(location)
    missing = _missing_from(conninfo.conninfo_to_dict(location))
    query = "&".join(
        [part for part in [parts.query] if part] + [f"{name}={quote(value)}" for name, value in missing.items()]
    )
    return urlunsplit(parts._replace(query=query))
