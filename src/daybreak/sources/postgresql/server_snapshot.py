"""One exported snapshot of a PostgreSQL server, and the connections that read in it.

The keeper, a psycopg connection, holds the snapshot (`REPEATABLE READ READ ONLY`) and answers small queries. Rows are
streamed over ADBC connections, each stream in a transaction of the same snapshot. A connection whose stream ended
normally is reused, so a reading needs three connections in total. A connection whose stream failed is closed. Every
wait for the server is limited by a `ServerWatch`.

Every setting is local to its transaction: behind PgBouncer in transaction mode, other clients use the same session.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import adbc_driver_manager
import adbc_driver_postgresql
import psycopg
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement
from psycopg import conninfo
from psycopg.abc import PQGen

from daybreak.domain.errors import CONNECTION_ADVICE, SourceError, SourceUnavailable, first_line, without_value
from daybreak.export.sql import literal
from daybreak.sources.postgresql.watch import ServerWatch
from daybreak.sources.staging import ArrowStream, StreamFailed

_Result = TypeVar("_Result")

# Bounded waits for an unreachable server. Both drivers accept libpq's parameters.
_CONNECTION_PARAMETERS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "application_name": "daybreak",
}
# The keeper's transaction lasts as long as the run. A thread keeps it from being idle. The server ends the transaction
# of a process that is stopped or unreachable: its snapshot would keep dead rows of the whole server. The available
# settings depend on the version of the server.
_MAX_IDLE_SECONDS = 900
_HEARTBEAT_SECONDS = 60
# psycopg parses times and intervals only in these styles. The server converts texts of other encodings. If a row-level
# security policy would hide rows from the role, the server reports an error. A session that alters a table waits for
# the keeper, and streams queue behind that session. The server detects no deadlock, because the keeper does not wait
# for a lock. The lock timeout ends the wait.
_SETTINGS = (
    "SET LOCAL TimeZone TO 'UTC'; SET LOCAL client_encoding TO 'UTF8'; SET LOCAL row_security TO off; "
    "SET LOCAL lock_timeout TO '10s'; SET LOCAL DateStyle TO 'ISO'; SET LOCAL IntervalStyle TO 'postgres'"
)
_COMMIT = "COMMIT"
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BATCH_OPTION = "adbc.postgresql.batch_size_hint_bytes"
# A sixteenth of the driver's default. Buffers are reused, which takes less memory and a tenth less work.
_BATCH_BYTES = 1 << 20
# SQLSTATE classes of errors that may not repeat: connection (08), conflict and recovery (40), resources (53), operator
# intervention (57), lock timeout (55P03), and the end of an idle transaction (25P03).
_TRANSIENT = ("08", "40", "53", "57", "55P03", "25P03")
_DATA_EXCEPTION = "22"
# An exception that a function of the platform raises.
_RAISED = "P0"
_QUERY_CANCELED = "57014"
# SQLSTATEs of SET TRANSACTION SNAPSHOT after the end of the transaction that exported it, by the server's version.
_NO_SNAPSHOT = ("42704", "22023")
_IN_FAILED_TRANSACTION = "25P02"
# What to do about errors whose message does not say it.
_ADVICE = {
    "55P03": ". Another session has locked the table, perhaps to alter it. Do this at another time than the run.",
    "22021": ". A text has bytes that its encoding does not allow, which a database in SQL_ASCII accepts. Correct it.",
}


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A psycopg connection. Once it is open, `watch` limits its waits for the server."""

    watch: ServerWatch | None = None

    def wait(self, gen: PQGen[_Result], interval: float = 0.1, timeout: float | None = None) -> _Result:
        """Wait for the server, as psycopg does."""
        with nullcontext() if self.watch is None else self.watch.limit():
            return super().wait(gen, interval, timeout)


class ServerSnapshot:
    """Reads in one exported snapshot. `keeper` holds it open, and is for one thread and the heartbeat."""

    def __init__(
        self, location: str, keeper: Connection, watch: ServerWatch, name: str, *, timeout_seconds: int
    ) -> None:
        self.keeper = keeper
        self._watch = watch
        self._location = location
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._lock = Lock()
        # In a separate thread, because the driver first queries the server's types. The keeper is used in the meantime.
        self._opener = ThreadPoolExecutor(1, thread_name_prefix="driver")
        self._database = self._opener.submit(self._open_database)
        self._idle: deque[AdbcConnection] = deque()
        self._streaming: set[AdbcConnection] = set()
        self._canceled: set[AdbcConnection] = set()

    def _open_database(self) -> AdbcDatabase:
        with self._watch.limit():
            database: AdbcDatabase = adbc_driver_postgresql.connect(_adbc_uri(self._location))
        return database

    def faults(self, subject: str) -> AbstractContextManager[None]:
        """Convert the errors of both drivers, as `server_faults` does."""
        return server_faults(subject, timeout_seconds=self._timeout_seconds)

    def open_driver(self) -> None:
        """Open a connection of the driver that streams rows, which the first stream uses. `keeper` has another driver.
        Raises SourceError, SourceUnavailable.
        """
        with self.faults("The source"), self._watch.limit():
            self._idle.append(AdbcConnection(self._database.result()))

    @contextmanager
    def stream(self, sql: str, *, parallel_workers: bool = True) -> Iterator[ArrowStream]:
        """Stream the rows of one SELECT, in any thread. Without `parallel_workers` the server runs it in one process,
        for SELECTs that are streamed in parallel. Raises SourceError, SourceUnavailable.
        """
        with self.faults("The source"), self._watch.limit():
            connection = self._begun_connection(parallel_workers=parallel_workers)
            with self._lock:
                self._streaming.add(connection)
            try:
                with AdbcStatement(connection) as statement:
                    statement.set_options(**{_BATCH_OPTION: str(_BATCH_BYTES)})
                    statement.set_sql_query(sql)
                    began = monotonic()
                    rows, _ = statement.execute_query()
                    try:
                        yield rows
                    except StreamFailed as failure:
                        failure.sqlstate = self._sqlstate_of_failure(connection, sql, monotonic() - began)
                        raise
                _execute(connection, _COMMIT)
            except BaseException:
                with self._lock:
                    self._streaming.discard(connection)
                    self._canceled.discard(connection)
                connection.close()
                raise
            with self._lock:
                self._streaming.discard(connection)
            self._idle.append(connection)

    def cancel(self) -> None:
        """Cancel the statements of all open streams, from any thread."""
        with self._lock, self._watch.limit():
            self._canceled |= self._streaming
            for connection in self._streaming:
                # A server that is no longer available has canceled them.
                with suppress(adbc_driver_manager.Error):
                    connection.cancel()

    def close(self) -> None:
        """Close idle connections. Call it when no stream is open."""
        while self._idle:
            self._idle.popleft().close()
        self._opener.shutdown()
        if self._database.exception() is None:
            self._database.result().close()

    def _begun_connection(self, *, parallel_workers: bool) -> AdbcConnection:
        """Return a connection in a transaction of the snapshot: an idle one that the server has not closed, which it
        does after `idle_session_timeout`, or a new one.
        """
        with suppress(IndexError, adbc_driver_manager.Error):
            return self._begun(self._idle.popleft(), parallel_workers=parallel_workers)
        return self._begun(AdbcConnection(self._database.result()), parallel_workers=parallel_workers)

    def _begun(self, connection: AdbcConnection, *, parallel_workers: bool) -> AdbcConnection:
        """Begin a transaction of the snapshot. Closes the connection if that fails."""
        try:
            for statement in self._begin_statements(parallel_workers=parallel_workers):
                _execute(connection, statement)
        except adbc_driver_manager.Error as error:
            connection.close()
            if error.sqlstate not in _NO_SNAPSHOT:
                raise
            raise SourceUnavailable(
                "The source (PostgreSQL) ended the transaction of the run. If it does so again, look for what ends "
                "long transactions, such as idle_transaction_timeout and query_timeout of PgBouncer."
            ) from error
        return connection

    def _begin_statements(self, *, parallel_workers: bool = True) -> Iterator[str]:
        yield _BEGIN
        yield f"SET TRANSACTION SNAPSHOT {literal(self._name)}"
        yield from _settings(self._timeout_seconds)
        if not parallel_workers:
            yield "SET LOCAL max_parallel_workers_per_gather TO 0"

    def _sqlstate_of_failure(self, connection: AdbcConnection, sql: str, seconds: float) -> str | None:
        """Return the SQLSTATE of the error that ended a stream, None when the server reported none.

        An error of an Arrow stream has a message but no SQLSTATE. If the connection is still usable, the statement is
        repeated in the same snapshot: an error in the data recurs, a cancellation or a conflict usually does not. The
        statement is not repeated if the stream was canceled here or exceeded its timeout.
        """
        with self._lock:
            if connection in self._canceled:
                return None
        if 0 < self._timeout_seconds <= seconds:
            return _QUERY_CANCELED
        try:
            _execute(connection, "SELECT 1")
        except adbc_driver_manager.Error as error:
            if error.sqlstate != _IN_FAILED_TRANSACTION:
                return error.sqlstate
        try:
            with closing(_connect(self._location)) as repeating:
                repeating.watch = self._watch
                for statement in self._begin_statements():
                    repeating.execute(statement.encode())
                return _sqlstate_of(repeating, sql)
        except psycopg.Error:
            # The snapshot or the server is no longer available.
            return None


def _sqlstate_of(connection: Connection, sql: str) -> str | None:
    """Run a SELECT to its end. Return the SQLSTATE of its error, None when it succeeds."""
    try:
        with connection.cursor().copy(f"COPY ({sql}) TO STDOUT (FORMAT binary)".encode()) as rows:
            for _ in rows:
                pass
    except psycopg.Error as error:
        return error.sqlstate
    return None


def _execute(connection: AdbcConnection, sql: str) -> None:
    with AdbcStatement(connection) as statement:
        statement.set_sql_query(sql)
        statement.execute_update()


@contextmanager
def open_snapshot(location: str, *, timeout_seconds: int) -> Iterator[ServerSnapshot]:
    """Export a snapshot for the duration of the context. A statement may take `timeout_seconds`, 0 for the server's own
    limit. Raises SourceError, SourceUnavailable.
    """
    with open_transaction(location, timeout_seconds=timeout_seconds) as (keeper, watch), _heartbeat(keeper):
        with server_faults("The source"):
            row = keeper.execute("SELECT pg_export_snapshot()").fetchone()
        if row is None:
            raise SourceUnavailable("The source exported no snapshot.")
        snapshot = ServerSnapshot(location, keeper, watch, str(row[0]), timeout_seconds=timeout_seconds)
        with closing(snapshot):
            yield snapshot


@contextmanager
def open_transaction(location: str, *, timeout_seconds: int) -> Iterator[tuple[Connection, ServerWatch]]:
    """Open a connection in a read-only transaction, in UTC, and the watch of its server. A statement may take
    `timeout_seconds`, as in `open_snapshot`. Raises SourceError, SourceUnavailable.
    """
    with server_faults("source.location", advice=f". {CONNECTION_ADVICE}"):
        connection = _connect(location)
    with closing(connection):
        parameters = _CONNECTION_PARAMETERS | _parameters(location)
        watch = ServerWatch(parameters, connection.info, connection.fileno(), timeout_seconds)
        connection.watch = watch
        with watch.running():
            with server_faults("The source"):
                for statement in (_BEGIN, *_settings(timeout_seconds)):
                    connection.execute(statement.encode())
            yield connection, watch


def _settings(timeout_seconds: int) -> Iterator[str]:
    milliseconds = f"{_MAX_IDLE_SECONDS * 1000:.0f}"
    yield _SETTINGS
    yield (
        f"SELECT set_config(name, CASE name WHEN 'transaction_timeout' THEN '0' ELSE '{milliseconds}' END, true) "
        "FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'tcp_user_timeout', "
        "'transaction_timeout')"
    )
    if timeout_seconds:
        yield f"SET LOCAL statement_timeout = {timeout_seconds * 1000:d}"


@contextmanager
def _heartbeat(keeper: Connection) -> Iterator[None]:
    """Keep the keeper's transaction from being idle, while this process runs."""
    stop = Event()

    def beat() -> None:
        while not stop.wait(_HEARTBEAT_SECONDS):
            # The next query of the reading reports a lost connection.
            with suppress(psycopg.Error):
                keeper.execute("SELECT 1")

    thread = Thread(target=beat, name="source-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def server_faults(subject: str, *, timeout_seconds: float = 0, advice: str = "") -> Iterator[None]:
    """Convert errors of both drivers by their SQLSTATE: SourceUnavailable when another attempt may succeed, SourceError
    otherwise. `subject` begins the message, and `advice` ends it.

    A canceled statement has the same SQLSTATE for every cause, and a message in the server's language. It counts as
    timed out if it took `timeout_seconds` or more.
    """
    began = monotonic()
    try:
        yield
    except (psycopg.Error, adbc_driver_manager.Error, StreamFailed) as error:
        sqlstate = error.sqlstate
        message = f"{subject} (PostgreSQL): {_reason(error, sqlstate or '')}{advice or _ADVICE.get(sqlstate or '', '')}"
        if sqlstate == _QUERY_CANCELED and 0 < timeout_seconds <= monotonic() - began:
            raise SourceError(f"{message}. Raise source.statement_timeout, or add an index on the server.") from error
        # Without SQLSTATE, the connection failed, or the driver cannot convert a value.
        lost = sqlstate is None and not isinstance(error, psycopg.DataError)
        if lost or (sqlstate or "").startswith(_TRANSIENT):
            raise SourceUnavailable(message) from error
        raise SourceError(message) from error


def _reason(error: Exception, sqlstate: str) -> str:
    """Return the message of the server without values of rows."""
    if sqlstate.startswith(_RAISED):
        reason = "a function raised an exception, whose text may quote a row. Run the query in psql to see it"
        return f"{reason} (SQLSTATE {sqlstate})"
    if sqlstate.startswith(_DATA_EXCEPTION):
        return f"{without_value(error)} (SQLSTATE {sqlstate})"
    return first_line(error)


def _connect(location: str) -> Connection:
    return Connection.connect(
        location, autocommit=True, prepare_threshold=None, **_missing_parameters(_parameters(location))
    )


def _parameters(location: str) -> dict[str, Any]:
    """Return the parameters of an address. Raises SourceError, whose message omits the address and its password."""
    try:
        if not location.startswith(("postgresql://", "postgres://")):
            raise psycopg.ProgrammingError
        return conninfo.conninfo_to_dict(location)
    except psycopg.ProgrammingError:
        raise SourceError(
            "source.location is not a PostgreSQL URL. Use postgresql://user@host/database, with libpq parameters after "
            "a question mark, and percent-encode special characters in names and passwords."
        ) from None


def _missing_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _CONNECTION_PARAMETERS.items() if name not in given}


def _adbc_uri(location: str) -> str:
    """Return the same address for ADBC, which accepts parameters only in the URL."""
    parts = urlsplit(location)
    missing = _missing_parameters(conninfo.conninfo_to_dict(location))
    query = "&".join(
        [part for part in [parts.query] if part] + [f"{name}={quote(value)}" for name, value in missing.items()]
    )
    # Not urlunsplit, which drops the slashes of an empty host: `postgresql:///database?host=/var/run/postgresql`.
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{query}"
