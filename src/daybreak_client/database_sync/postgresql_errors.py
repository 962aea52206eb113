"""Errors of PostgreSQL, as messages without values of rows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from daybreak_client.database_sync.database import KEY_PROBLEM, KeyViolation
from daybreak_client.errors import Busy, DatabaseFailed, reason_of
from daybreak_client.tables import Table

# Classes of errors whose messages describe the connection, permissions, names and resources: connection, transaction
# state, authorization, catalog, schema, rollback, syntax and access, resources, limits, state of
# objects, intervention, system.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_CLASSES_WITHOUT_VALUES = frozenset({"08", "25", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58"})
# The function of PL/pgSQL's RAISE, with which a trigger of the user can put any text into an error.
_RAISE = "exec_stmt_raise"
# The context of a COPY continues with the value.
_PLACE = re.compile(r"COPY [^,\n]+, (line \d+(?:, column [A-Z][A-Z0-9_]*)?)")


@contextmanager
def errors_of_postgresql() -> Iterator[None]:
    """Raise errors of PostgreSQL as DatabaseFailed."""
    try:
        yield
    except (errors.UniqueViolation, errors.NotNullViolation, errors.ProgramLimitExceeded):
        raise
    except errors.LockNotAvailable:
        raise Busy(
            "Another session has locked a table of the sync. Try again later, or wait longer with --lock-timeout."
        ) from None
    except psycopg.Error as error:
        raise DatabaseFailed(described(error)) from None


# What the user can do about an error that concerns additions to the tables.
_ADVICE: dict[type[psycopg.Error], str] = {
    errors.ForeignKeyViolation: "A row that is deleted is referred to, or a row refers to one that is not in the "
    "files. Delete the rows that refer to it, or declare the foreign key ON DELETE CASCADE or SET NULL.",
    errors.NotNullViolation: "Give the column a default, or permit NULL.",
    errors.CheckViolation: "Drop the constraint, or declare one that the published rows fulfill.",
    errors.ProgramLimitExceeded: "A value is too long for an index of yours. Drop the index, or index a part of the "
    "value.",
    errors.UniqueViolation: "Drop the constraint, or the index with this name: published rows repeat its values.",
    errors.DuplicateTable: "Rename it, or select another schema with --schema.",
    errors.StringDataRightTruncation: "A column has a maximum length. Change its type to text.",
}


def described(error: psycopg.Error) -> str:
    """Return what PostgreSQL reports, without values of rows, which most messages, details and contexts quote."""
    found, advice = error.diag, _ADVICE.get(type(error), "")
    if error.sqlstate is None:
        # An error of the connection, which has no rows.
        return f"PostgreSQL: {reason_of(error)}"
    if isinstance(error, errors.DependentObjectsStillExist):
        # The detail names the objects.
        return (
            f"PostgreSQL: {found.message_primary}: {'; '.join((found.message_detail or '').splitlines())}. "
            "Drop what depends on it and run the sync again."
        )
    place = _PLACE.match(found.context or "")
    # Another context than that of COPY is a function, whose message may contain a value.
    is_own = place is not None or not found.context
    if error.sqlstate[:2] in _CLASSES_WITHOUT_VALUES and is_own and found.message_primary:
        return ". ".join(filter(None, (f"PostgreSQL: {found.message_primary}", advice)))
    named = {"table": found.table_name, "column": found.column_name, "constraint": found.constraint_name}
    if found.source_function == _RAISE:
        named, advice = {}, ""
    places = [f"{kind} {name}" for kind, name in named.items() if name] + ([place[1]] if place else [])
    text = ", ".join([f"PostgreSQL: {type(error).__name__}", *places])
    return ". ".join(filter(None, (text, advice)))


@contextmanager
def key_violations(table: Table, key: str | None) -> Iterator[None]:
    """Raise violations of the primary key that the sync adds as KeyViolation.

    `key` is its name, empty if the table has none, and None while it is being added. Other violations are those of
    constraints of the user, and fail.
    """
    try:
        yield
    except errors.ProgramLimitExceeded as error:
        named = re.search(r'index "(.+)"', error.diag.message_primary or "")
        if key == "" or (key and named and named[1] != key):
            raise DatabaseFailed(described(error)) from None
        raise KeyViolation(table.name, "a value of its key is too long for an index of PostgreSQL") from None
    except errors.NotNullViolation as error:
        if key == "" or error.diag.column_name not in table.primary_key:
            raise DatabaseFailed(described(error)) from None
        raise KeyViolation(table.name, KEY_PROBLEM) from None
    except errors.UniqueViolation as error:
        if key is not None and error.diag.constraint_name != key:
            raise DatabaseFailed(described(error)) from None
        raise KeyViolation(table.name, KEY_PROBLEM) from None
