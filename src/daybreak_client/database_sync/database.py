"""The database of a sync, as the engine sees it. Each engine of databases has one implementation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from daybreak_client.database_sync.plan import AccountState
from daybreak_client.tables import Table

STATE_TABLE = "_daybreak_sync"
KEY_PROBLEM = "its rows repeat the key, or have no value in it"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class DatabaseProblem(Exception):
    """A problem that a full load of one resource, or a load without primary key, may solve."""

    def __init__(self, resource: str, reason: str) -> None:
        super().__init__(reason)
        self.resource = resource
        self.reason = reason


class WrongContent(DatabaseProblem):
    """A table does not have the expected rows after a step."""


class KeyViolation(DatabaseProblem):
    """Rows repeat the primary key of a table, or have no value in it, or the database cannot add it."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Rows that files deleted and inserted, and the NUL characters in them that the database cannot store."""

    deleted: int = 0
    inserted: int = 0
    replaced_characters: int = 0


class Database(Protocol):
    """Tables of the nine resources and the state of the sync. Must be closed.

    `max_row_bytes` is the size of the largest row of a file that the database can read, None without a limit.

    Methods raise DatabaseFailed when the database reports an error, and WrongUse for tables of another shape.
    """

    max_row_bytes: int | None

    def close(self) -> None:
        """Close the connection."""

    def state(self, client_id: str) -> AccountState | None:
        """Return what the database contains of an account, None if it was never synced."""

    def accounts(self) -> Sequence[str]:
        """Return the client_ids of the accounts that were synced."""

    def delete_account(self, client_id: str) -> None:
        """Delete the rows and the state of an account."""

    def columns(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table with their kinds, none if it does not exist. Other types are text."""

    def added_columns(self, table: str) -> frozenset[str]:
        """Return the names of columns that syncs have added to a table, none if those of earlier versions have."""

    def missing_tables(self, tables: Sequence[Table]) -> Collection[str]:
        """Return the names of tables that do not exist, or lack a column.

        Raises WrongUse for a column of another type, and for a table that the sync did not create.
        """

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction that excludes other syncs; commit at the end, roll back on an error."""

    def create_tables(self, tables: Sequence[Table], *, without_key: Collection[str]) -> None:
        """Create missing tables and columns, and drop the primary keys of the tables `without_key`.

        Raises WrongUse, DatabaseFailed for additions of the user that would be lost.
        """

    def additions(self, table: Table) -> str:
        """Return a sentence that names what the user has added to a table and may change its rows, or refuse them.

        Queries nothing: it may be called after an error.
        """

    def load(self, table: Table, client_id: str, file: Path) -> int:
        """Insert the rows of a CSV file, for an account without rows. Returns the number of replaced characters.

        Raises KeyViolation, WrongContent.
        """

    def add_key(self, table: Table) -> None:
        """Add the primary key of a table that lacks it. Raises KeyViolation."""

    def stage(self, table: Table, client_id: str, files: Sequence[Path], *, full: bool) -> Applied:
        """Copy consecutive deltas, or with `full` a full file, next to a table, and delete the rows that are gone.

        Returns the deleted rows and those that the files contain. Raises KeyViolation, WrongContent.
        """

    def apply(self, table: Table, client_id: str, staged: Applied, *, full: bool) -> Applied:
        """Update the rows that stay and insert new ones. `staged` is the result of `stage`.

        Returns the deleted and inserted rows, where an updated row is both. Raises KeyViolation.
        """

    def set_constants(self, table: Table, client_id: str, constants: Mapping[str, str | None]) -> None:
        """Set columns of all rows of an account."""

    def count(self, table: Table, client_id: str) -> int:
        """Return the number of rows of an account."""

    def count_replaced(self, table: Table, client_id: str) -> int:
        """Return the number of characters U+FFFD in the rows of an account. Called if some of them replace NUL."""

    def save_state(self, client_id: str, state: AccountState, now: datetime) -> None:
        """Replace the state of an account."""

    def save_etag(self, client_id: str, etag: str) -> None:
        """Save the entity tag of a feed without news."""

    def content_sha256(self, table: Table, client_id: str) -> str:
        """Export the rows of an account as a CSV file in the order of the files, and return its SHA-256.

        The order of rows with equal keys may differ from the file.
        """

    def contains(self, table: Table, client_id: str, file: Path) -> bool:
        """Return whether the rows of an account are those of a full file in any order."""
