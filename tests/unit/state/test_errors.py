"""Translation of database errors."""

import sqlite3

import psycopg
import pytest
import sqlalchemy.exc

from daybreak.domain.errors import Conflict, Unavailable
from daybreak.state.errors import is_retryable, service_error, translated_errors


def wrapped(error: BaseException) -> sqlalchemy.exc.DBAPIError:
    found = sqlalchemy.exc.DBAPIError.instance("SELECT", None, error, (sqlite3.Error, psycopg.Error))  # type: ignore[call-overload]
    assert isinstance(found, sqlalchemy.exc.DBAPIError)
    return found


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("database is locked"),
        sqlite3.OperationalError("disk I/O error"),
        sqlite3.OperationalError("unable to open database file"),
        sqlite3.DatabaseError("file is not a database"),
        psycopg.OperationalError("connection refused"),
        psycopg.errors.AdminShutdown("ended"),
        psycopg.errors.QueryCanceled("statement timeout"),
        psycopg.errors.LockNotAvailable("lock timeout"),
        psycopg.errors.TooManyConnections("full"),
        psycopg.errors.ReadOnlySqlTransaction("a standby"),
        psycopg.errors.DeadlockDetected("deadlock"),
        psycopg.errors.DiskFull("pg_wal"),
        psycopg.errors.InsufficientPrivilege("permission denied for table seats"),
    ],
)
def test_temporary_errors_are_unavailable(error: Exception) -> None:
    translated = service_error(wrapped(error))
    assert isinstance(translated, Unavailable)
    assert translated.code == "state_unavailable"
    assert translated.transient
    assert str(error) not in translated.message


@pytest.mark.parametrize(
    "error", [TimeoutError(), sqlalchemy.exc.TimeoutError("pool"), sqlite3.OperationalError("database is locked")]
)
def test_unwrapped_errors_are_translated(error: Exception) -> None:
    with pytest.raises(Unavailable), translated_errors():
        raise error


@pytest.mark.parametrize(
    "error", [sqlite3.IntegrityError("UNIQUE"), psycopg.errors.UniqueViolation(), psycopg.errors.ForeignKeyViolation()]
)
def test_constraint_violations_are_conflicts(error: Exception) -> None:
    assert isinstance(service_error(wrapped(error)), Conflict)


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("no such table: seats"),
        sqlite3.OperationalError('near "SELEC": syntax error'),
        sqlite3.ProgrammingError("Cannot operate on a closed database"),
        psycopg.errors.UndefinedTable("seats"),
    ],
)
def test_programming_errors_are_not_translated(error: Exception) -> None:
    assert service_error(wrapped(error)) is None
    with pytest.raises(sqlalchemy.exc.DBAPIError), translated_errors():
        raise wrapped(error)


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (psycopg.errors.DiskFull("disk"), "Free some space"),
        (psycopg.errors.InsufficientPrivilege("seats"), "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"),
    ],
)
def test_message_names_the_fix(error: Exception, fix: str) -> None:
    found = service_error(wrapped(error))
    assert isinstance(found, Unavailable)
    assert fix in found.message


def test_only_transaction_conflicts_are_retryable() -> None:
    assert is_retryable(wrapped(psycopg.errors.SerializationFailure()))
    assert is_retryable(wrapped(psycopg.errors.DeadlockDetected()))
    assert not is_retryable(wrapped(psycopg.errors.AdminShutdown()))
    assert not is_retryable(wrapped(sqlite3.OperationalError("database is locked")))
