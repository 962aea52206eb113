"""What a database's error means to the service: away for now, a clash, or a fault of ours."""

from __future__ import annotations

import sqlite3

import sqlalchemy.exc

from daybreak.domain.errors import Conflict, DaybreakError, Unavailable

# SQLSTATE classes of PostgreSQL that say "not now": connection, resources, operator, system,
# transaction rollback, object state (locks), and 25006, a server that has become read-only.
_TRANSIENT_CLASSES = ("08", "40", "53", "55", "57", "58")
_READ_ONLY = "25006"
_RERUN = ("40001", "40P01")
# No other try helps: the file is something else, or broken.
_UNREADABLE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
# The shared index beside the file is the first to find no room, before anything is written.
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
_FULL_STATE = "53100"
_OUT_OF_REACH = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)


def unavailable() -> Unavailable:
    """The state database does not answer, or not in time."""
    return Unavailable("The state database does not answer. Try again shortly.", code="state_unavailable")


def unreadable() -> Unavailable:
    """The file of the state database holds something else, or is broken: the operator has to see to it."""
    return Unavailable(
        "The state database cannot be read: its file is no SQLite database, or is damaged. "
        "The operator has to bring it back from a copy, or name another one as state.url.",
        code="state_unavailable",
    )


def out_of_reach() -> Unavailable:
    """The file of the state database is not there, or not for this user: the operator has to see to it."""
    return Unavailable(
        "The state database's file cannot be opened, or not be written. See that it is where state.url says, and that "
        "the service's user may write it, the -wal and -shm beside it, and their folder.",
        code="state_unavailable",
    )


def full() -> Unavailable:
    """The disk of the state database is full: the operator has to see to it."""
    return Unavailable(
        "The disk of the state database is full. Make room where state.url says; nothing else has to be done.",
        code="state_unavailable",
    )


def busy() -> Unavailable:
    """More is asked of the state database than it can do in time."""
    return Unavailable("The service is busy. Try again shortly.", code="busy")


def sqlstate_of(error: BaseException) -> str:
    """PostgreSQL's five characters, "" when the error carries none."""
    return getattr(error, "sqlstate", None) or ""


def wants_rerun(error: BaseException) -> bool:
    """Whether the transaction lost against another one and may simply be done again."""
    return sqlstate_of(_cause(error)) in _RERUN


def is_disconnect(error: BaseException) -> bool:
    """Whether the connection was lost, so that another one may do."""
    return isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated


def _cause(error: BaseException) -> BaseException:
    if isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig is not None:
        return error.orig
    return error


def meaning_of(error: BaseException) -> DaybreakError | None:
    """The service's error for a database's; None for what is a fault of ours."""
    if isinstance(error, TimeoutError | sqlalchemy.exc.TimeoutError):
        return unavailable()
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        return _meaning_of_sqlite(cause)
    state = sqlstate_of(cause)
    if state.startswith("23"):
        return Conflict("That clashes with what is already stored, or refers to something that is not there.")
    if state == _FULL_STATE:
        return full()
    if state.startswith(_TRANSIENT_CLASSES) or state == _READ_ONLY:
        return unavailable()
    if not state and isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return unavailable()
    return None


def _meaning_of_sqlite(cause: sqlite3.Error) -> DaybreakError | None:
    if isinstance(cause, sqlite3.IntegrityError):
        return Conflict("That clashes with what is already stored, or refers to something that is not there.")
    if isinstance(cause, sqlite3.ProgrammingError) or str(cause).startswith(("no such ", "near ")):
        return None
    if isinstance(cause, sqlite3.DatabaseError):
        whole = getattr(cause, "sqlite_errorcode", 0)
        if whole in _FULL:
            return full()
        # The lower eight bits say what, the others where.
        code = whole & 0xFF
        if code in _OUT_OF_REACH:
            return out_of_reach()
        return unreadable() if code in _UNREADABLE else unavailable()
    return None


class translated:  # noqa: N801 - read as `with translated():`
    """Raises the service's error in place of the database's own."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None and isinstance(error, sqlalchemy.exc.SQLAlchemyError | sqlite3.Error | TimeoutError):
            meaning = meaning_of(error)
            if meaning is not None:
                raise meaning from error
