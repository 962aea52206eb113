"""Translation of database errors to errors of the service."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy.exc

from daybreak.domain.errors import Conflict, DaybreakError, Unavailable

# SQLSTATE classes of temporary conditions (PostgreSQL documentation, appendix A): connection exception, transaction
# rollback, insufficient resources, object state, operator intervention, system error; and 25006, read-only server.
_TRANSIENT_CLASSES = ("08", "40", "53", "55", "57", "58")
_READ_ONLY = "25006"
_RETRYABLE = ("40001", "40P01")  # serialization failure, deadlock
# Permanent: the file is damaged or not a database.
_CORRUPT = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
# IOERR_SHMSIZE: on a full disk the -shm file cannot grow, before anything is written.
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
_FULL_STATE, _DENIED_STATE = "53100", "42501"
_INACCESSIBLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)
_NO_ANSWER = "The state database does not answer. Try again shortly."
_DAMAGED = (
    "The state database cannot be read: its file is damaged or not a SQLite database. "
    "Restore it from a backup, or set state.url to another database."
)
_NOT_OPENED = (
    "The file of the state database cannot be opened for writing. Check that it exists at state.url, and that the "
    "user of the service may write the file, its -wal and -shm files, and their folder."
)
_STANDBY = (
    "The server in state.url is a standby, which may not have the latest revocations. Promote it, or set state.url to "
    "the primary."
)
# libpq has no code for it: https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNECT-TARGET-SESSION-ATTRS
_IS_STANDBY = "server is in hot standby mode"
_DISK_FULL = "The disk of the state database is full. Free some space; the service then continues without a restart."
_DENIED = (
    "The role in state.url lacks a permission. `daybreakd migrate` needs the owner of the state database. For another "
    "role, the owner runs `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO` it."
)


def unavailable(text: str = _NO_ANSWER) -> Unavailable:
    """Return the error for a state database that cannot be used. Default: it does not answer in time."""
    return Unavailable(text, code="state_unavailable")


def busy() -> Unavailable:
    """Return the error for too many waiting transactions."""
    return Unavailable("The service is busy. Try again shortly.", code="busy")


def sqlstate_of(error: BaseException) -> str:
    """Return the SQLSTATE code of a PostgreSQL error, "" for other errors."""
    return getattr(error, "sqlstate", None) or ""


def is_retryable(error: BaseException) -> bool:
    """Return whether the transaction conflicted with another one and can be repeated."""
    return sqlstate_of(_cause(error)) in _RETRYABLE


def _cause(error: BaseException) -> BaseException:
    if isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig is not None:
        return error.orig
    return error


def service_error(error: BaseException) -> DaybreakError | None:
    """Return the service's error for a database error, None for a programming error."""
    if isinstance(error, TimeoutError | sqlalchemy.exc.TimeoutError):
        return unavailable()
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        return _service_error_of_sqlite(cause)
    state = sqlstate_of(cause)
    if state.startswith("23"):
        return Conflict("The change conflicts with stored data, or refers to something that does not exist.")
    if state == _FULL_STATE:
        return unavailable(_DISK_FULL)
    if state == _DENIED_STATE:
        return unavailable(_DENIED)
    if state.startswith(_TRANSIENT_CLASSES) or state == _READ_ONLY:
        return unavailable()
    if not state and isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return unavailable(_STANDBY if _IS_STANDBY in str(cause) else _NO_ANSWER)
    return None


def _service_error_of_sqlite(cause: sqlite3.Error) -> DaybreakError | None:
    if isinstance(cause, sqlite3.IntegrityError):
        return Conflict("The change conflicts with stored data, or refers to something that does not exist.")
    if isinstance(cause, sqlite3.ProgrammingError) or str(cause).startswith(("no such ", "near ")):
        return None
    if isinstance(cause, sqlite3.DatabaseError):
        extended_code = getattr(cause, "sqlite_errorcode", 0)
        if extended_code in _FULL:
            return unavailable(_DISK_FULL)
        code = extended_code & 0xFF  # the primary result code, https://sqlite.org/rescode.html
        if code in _INACCESSIBLE:
            return unavailable(_NOT_OPENED)
        return unavailable(_DAMAGED if code in _CORRUPT else _NO_ANSWER)
    return None


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the service's errors in place of the database's."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, sqlite3.Error, TimeoutError) as error:
        translated = service_error(error)
        if translated is None:
            raise
        raise translated from error
