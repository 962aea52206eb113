"""What each error of a database means to the service."""

import sqlite3

import psycopg
import pytest
import sqlalchemy.exc

from daybreak.domain.errors import Conflict, Unavailable
from daybreak.state.failures import meaning_of, translated, wants_rerun


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
    ],
)
def test_what_may_pass_is_unavailable(error: Exception) -> None:
    meaning = meaning_of(wrapped(error))
    assert isinstance(meaning, Unavailable)
    assert meaning.code == "state_unavailable"
    assert meaning.transient
    assert str(error) not in meaning.message


@pytest.mark.parametrize(
    "error", [TimeoutError(), sqlalchemy.exc.TimeoutError("pool"), sqlite3.OperationalError("database is locked")]
)
def test_bare_errors_are_understood_too(error: Exception) -> None:
    with pytest.raises(Unavailable), translated():
        raise error


@pytest.mark.parametrize(
    "error", [sqlite3.IntegrityError("UNIQUE"), psycopg.errors.UniqueViolation(), psycopg.errors.ForeignKeyViolation()]
)
def test_what_clashes_is_a_conflict(error: Exception) -> None:
    assert isinstance(meaning_of(wrapped(error)), Conflict)


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("no such table: seats"),
        sqlite3.OperationalError('near "SELEC": syntax error'),
        sqlite3.ProgrammingError("Cannot operate on a closed database"),
        psycopg.errors.UndefinedTable("seats"),
        psycopg.errors.InsufficientPrivilege("seats"),
    ],
)
def test_a_fault_of_ours_is_not_hidden(error: Exception) -> None:
    assert meaning_of(wrapped(error)) is None
    with pytest.raises(sqlalchemy.exc.DBAPIError), translated():
        raise wrapped(error)


def test_a_full_disk_is_called_so() -> None:
    found = meaning_of(wrapped(psycopg.errors.DiskFull("disk")))
    assert isinstance(found, Unavailable)
    assert "Make room" in found.message


def test_only_what_lost_against_another_is_simply_done_again() -> None:
    assert wants_rerun(wrapped(psycopg.errors.SerializationFailure()))
    assert wants_rerun(wrapped(psycopg.errors.DeadlockDetected()))
    assert not wants_rerun(wrapped(psycopg.errors.AdminShutdown()))
    assert not wants_rerun(wrapped(sqlite3.OperationalError("database is locked")))
