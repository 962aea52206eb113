"""The database of a sync: SQL that all databases share, and what each of them does in its way."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Protocol

from daybreak_client.database_sync.plan import AccountState, ResourceState
from daybreak_client.errors import WrongUse
from daybreak_client.tables import LEADER_COLUMN, TEXT, Column, Table
from daybreak_client.wire import RESOURCES

STATE_TABLE = "_daybreak_sync"
STATE_COLUMNS = (
    "client_id text, resource text, chain_id text, version bigint, snapshot_id text, as_of timestamptz, rows bigint, "
    "content_sha256 text, replaced_characters bigint, feed_etag text, synced_at timestamptz, "
    "columns text, PRIMARY KEY (client_id, resource)"
)
STAGE = "_daybreak_stage"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEY_PROBLEM = "its rows repeat the key, or have no value in it"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def identifier(name: str) -> str:
    """Return a name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def identifiers(names: Iterable[str]) -> str:
    """Return names in quotes, separated by commas."""
    return ", ".join(map(identifier, names))


def columns_with_types(table: Table, types: Mapping[str, str]) -> str:
    """Return the columns of CREATE TABLE."""
    return ", ".join(f"{identifier(column.name)} {types[column.kind]}" for column in table.columns)


def recorded(state: ResourceState) -> str:
    """Return the columns of a state as the database contains them: names and kinds, without kind for former ones."""
    columns = [f"{column.name} {column.kind}" for column in state.columns]
    return ",".join([*columns, *(f"{name} " for name in sorted(state.former))])


def resource_state(name: str, rows: int, digest: str, replaced: int, columns: str) -> ResourceState:
    """Return the state of a resource from the values of the database."""
    found = [Column(*each.split(" ")) for each in columns.split(",")]
    former = frozenset(column.name for column in found if not column.kind)
    return ResourceState(name, rows, digest, replaced, tuple(each for each in found if each.kind), former)


def types_by_table(rows: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    """Return the types of columns by table, from rows of table, column and type."""
    found: dict[str, dict[str, str]] = {}
    for table, column, data_type in rows:
        found.setdefault(table, {})[column] = data_type
    return found


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
    `as_of_microseconds` is SQL for the microseconds from 1970 to `as_of`. `composite` is an expression that is equal
    for lists of values that are equal, where NULL equals NULL. `row_id` identifies a row of an alias within a
    transaction. `types` are the types of each kind in CREATE TABLE, `accepted` those that existing columns may have.

    Methods raise DatabaseFailed when the database reports an error, and WrongUse for tables of another shape.
    """

    max_row_bytes: int | None
    placeholder: ClassVar[str]
    as_of_microseconds: ClassVar[str]
    composite: ClassVar[str]
    row_id: ClassVar[str]
    row_id_type: ClassVar[str]
    temporary_schema: ClassVar[str]
    types: ClassVar[Mapping[str, str]]
    accepted: ClassVar[Mapping[str, Collection[str]]]
    _connection: Any

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    # --- State and accounts, in SQL that the databases share -----------------------------------------

    def state(self, client_id: str) -> AccountState | None:
        """Return what the database contains of an account, None if it was never synced."""
        tables = self._columns()
        if STATE_TABLE not in tables:
            return None
        rows = self._rows(
            f"SELECT resource, version, chain_id, snapshot_id, {self.as_of_microseconds}, feed_etag, rows, "
            f"content_sha256, replaced_characters, columns FROM {self.qualified(STATE_TABLE)} "
            f"WHERE client_id = {self.placeholder} ORDER BY resource",
            [client_id],
        )
        # A row with NULL, which only the user can have set, counts as deleted.
        rows = [row for row in rows if None not in row]
        if not rows:
            return None
        resources = {row[0]: resource_state(row[0], *row[6:]) for row in rows if row[0] in tables}
        version, chain_id, snapshot_id, as_of, etag = rows[0][1:6]
        return AccountState(version, chain_id, snapshot_id, _EPOCH + timedelta(microseconds=as_of), etag, resources)

    def save_state(self, client_id: str, state: AccountState, now: datetime) -> None:
        """Replace the state of an account."""
        name, place = self.qualified(STATE_TABLE), self.placeholder
        instant = f"CAST({place} AS timestamptz)"
        values = ", ".join([*[place] * 5, instant, *[place] * 4, instant, place])
        self._execute(f"DELETE FROM {name} WHERE client_id = {place}", [client_id])
        for each in state.resources.values():
            self._execute(
                f"INSERT INTO {name} VALUES ({values})",
                [client_id, each.resource, state.chain_id, state.version, state.snapshot_id, state.as_of.isoformat(),
                 each.rows, each.content_sha256, each.replaced_characters, state.etag, now.isoformat(),
                 recorded(each)],
            )  # fmt: skip

    def save_etag(self, client_id: str, etag: str) -> None:
        """Save the entity tag of a feed without news."""
        place = self.placeholder
        name = self.qualified(STATE_TABLE)
        self._execute(f"UPDATE {name} SET feed_etag = {place} WHERE client_id = {place}", [etag, client_id])

    def accounts(self) -> Sequence[str]:
        """Return the client_ids of the accounts that were synced."""
        if STATE_TABLE not in self._columns():
            return ()
        rows = self._rows(f"SELECT DISTINCT client_id FROM {self.qualified(STATE_TABLE)} ORDER BY client_id")
        return [str(row[0]) for row in rows]

    def delete_account(self, client_id: str) -> None:
        """Delete the rows and the state of an account."""
        found = self._columns()
        # Tables whose rows may refer to rows of another one are before it.
        tables = [(name, LEADER_COLUMN) for name in reversed(RESOURCES) if LEADER_COLUMN in found.get(name, {})]
        for name, column in [*tables, (STATE_TABLE, "client_id")]:
            self._execute(
                f"DELETE FROM {self.qualified(name)} WHERE {identifier(column)} = {self.placeholder}", [client_id]
            )

    def columns(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table with their kinds, none if it does not exist. Other types are text."""
        kinds = {name: kind for kind, names in self.accepted.items() for name in names}
        return {column: kinds.get(name.lower(), TEXT) for column, name in self._columns().get(table, {}).items()}

    def added_columns(self, table: str) -> frozenset[str]:
        """Return the names of columns that syncs have added to a table, also former ones."""
        if STATE_TABLE not in self._columns():
            return frozenset()
        of_table = f"resource = {self.placeholder} AND columns IS NOT NULL"
        rows = self._rows(f"SELECT columns FROM {self.qualified(STATE_TABLE)} WHERE {of_table}", [table])
        return frozenset(each.split(" ")[0] for (columns,) in rows for each in columns.split(","))

    def missing_tables(self, tables: Sequence[Table]) -> Collection[str]:
        """Return the names of tables that do not exist, or lack a column.

        Raises WrongUse for a column of another type, and for a table without accounts, which the sync did not create.
        """
        found, missing = self._columns(), set()
        for table in tables:
            types = found.get(table.name, {})
            if types and LEADER_COLUMN not in types:
                raise WrongUse(
                    f"The database contains another table {table.name}, without the column {LEADER_COLUMN}. "
                    "Select a schema for the tables of the sync with --schema."
                )
            for column in table.columns:
                if column.name not in types:
                    missing.add(table.name)
                elif types[column.name].lower() not in self.accepted[column.kind]:
                    raise WrongUse(
                        f"Column {table.name}.{column.name} has the type {types[column.name]}, not {column.kind}. "
                        f"Drop the table {table.name}, or change the type of the column, and run the sync again."
                    )
        return missing

    def set_constants(self, table: Table, client_id: str, constants: Mapping[str, str | None]) -> None:
        """Set columns of all rows of an account."""
        if constants:
            values = ", ".join(
                f"{identifier(name)} = CAST({self.placeholder} AS {self.types[table.kinds[name]]})"
                for name in constants
            )
            update = f'UPDATE {self.qualified(table.name)} SET {values} WHERE "LEADER_ID" = {self.placeholder}'
            self._execute(update, [*constants.values(), client_id])

    def count(self, table: Table, client_id: str) -> int:
        """Return the number of rows of an account."""
        counted = f'SELECT count(*) FROM {self.qualified(table.name)} WHERE "LEADER_ID" = {self.placeholder}'
        return self.number(counted, [client_id])

    def content_sha256(self, table: Table, client_id: str) -> str:
        """Export the rows of an account as a CSV file in the order of the files, and return its SHA-256.

        The order of rows with equal keys may differ from the file.
        """
        order = table.key if self.has_key(table) else table.total_order
        return self._export(table, self.qualified(table.name), client_id, order)

    # --- What each database does in its way ----------------------------------------------------------

    def renew_connection(self) -> None:
        """Connect again if a pooler or the server ended the connection, which is idle while files are downloaded."""

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

    def count_replaced(self, table: Table, client_id: str) -> int:
        """Return the number of characters U+FFFD in the rows of an account. Called if some of them replace NUL."""

    def contains(self, table: Table, client_id: str, file: Path) -> bool:
        """Return whether the rows of an account are those of a full file in any order."""

    def has_key(self, table: Table) -> bool:
        """Return whether a table has the primary key that the sync adds."""

    def qualified(self, table: str) -> str:
        """Return the name of a table with its schema, in quotes."""

    def number(self, query: str, parameters: Sequence[object] = ()) -> int:
        """Return the number that a query returns, or the number of rows of a statement."""

    def _columns(self) -> dict[str, dict[str, str]]:
        """Return the types of the columns of all tables of the schema."""

    def _export(self, table: Table, source: str, client_id: str, columns: Sequence[str]) -> str:
        """Return the digest of the rows of an account in `source`, ordered by `columns`."""

    def _rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""

    def _execute(self, query: str, parameters: Sequence[object] = ()) -> Any:
        """Run a statement."""
