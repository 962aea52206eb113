"""Errors of DuckDB, as messages without values of rows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from daybreak_client.database_sync.database import KEY_PROBLEM, DatabaseProblem, KeyViolation
from daybreak_client.errors import DatabaseFailed
from daybreak_client.tables import Table

# Errors about files, names, permissions and memory, and files that the process has opened in another way.
_WITHOUT_VALUES = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConnectionException,
    duckdb.DependencyException,
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.ParserException,
    duckdb.PermissionException,
    duckdb.ResourceInUseException,
)
_CORRUPT = "Corrupt database file"
_NOT_NULL = re.compile(r"Constraint Error: NOT NULL constraint failed: \w+\.(\w+)")
_REFERRED = (
    "DuckDB: a row that must be deleted is referred to by a foreign key. DuckDB cannot delete both in one "
    "transaction. Delete the rows that refer to it before the sync, or drop the table with the foreign key."
)
# The beginnings of other messages that name a place. The rest of them is a row.
_PLACE = re.compile(
    r"Constraint Error: (NOT NULL constraint failed: [\w.]+|CHECK constraint failed on table \"?\w+\"?)"
    r"|[A-Z][A-Za-z ]+ Error: (CSV Error on Line: \d+)"
    # Such as a full disk, when a commit writes to the file or a checkpoint follows it.
    r"|[A-Za-z]+ Error: Failed to (?:commit|create checkpoint because of error): (Could not \w+ file \".*\": [\w ]+)"
)


@contextmanager
def errors_of_duckdb() -> Iterator[None]:
    """Raise errors of DuckDB as DatabaseFailed, and Ctrl-C during a statement as KeyboardInterrupt."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise
    except duckdb.ConstraintException:
        raise
    except duckdb.Error as error:
        raise DatabaseFailed(described(error)) from None


def described(error: duckdb.Error) -> str:
    """Return what DuckDB reports, without values of rows, which most of its messages quote."""
    text = str(error).strip()
    if isinstance(error, _WITHOUT_VALUES):
        return f"DuckDB: {' '.join(text.split())}"
    if isinstance(error, duckdb.ConstraintException) and "foreign key" in text:
        return _REFERRED
    if text.startswith(_CORRUPT):
        return f"DuckDB: {_CORRUPT}. Restore a copy, or move the file away and run the sync again."
    place = _PLACE.match(text)
    return f"DuckDB: {place[place.lastindex or 0] if place else type(error).__name__}"


@contextmanager
def constraint_violations(table: Table, raised: type[DatabaseProblem] | None = KeyViolation) -> Iterator[None]:
    """Raise violations of the primary key as `raised`; with None they are those of the user, as others are.

    DuckDB does not say which constraint repeated values violate.
    """
    try:
        yield
    except duckdb.ConstraintException as error:
        text = str(error)
        if "foreign key" in text:
            raise DatabaseFailed(described(error)) from None
        lacking = _NOT_NULL.match(text)
        of_key = lacking[1] in table.primary_key if lacking else "PRIMARY KEY or UNIQUE" in text
        if raised is None or not of_key:
            raise DatabaseFailed(described(error)) from None
        raise raised(table.name, KEY_PROBLEM) from None
