"""SQL and checks that all databases share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from daybreak_client.database_sync.plan import ResourceState
from daybreak_client.errors import WrongUse
from daybreak_client.tables import LEADER_COLUMN, Column, Table

STATE_TABLE = "_daybreak_sync"
STATE_COLUMNS = (
    "client_id text, resource text, chain_id text, version bigint, snapshot_id text, as_of timestamptz, rows bigint, "
    "content_sha256 text, replaced_characters bigint, feed_etag text, synced_at timestamptz, "
    "columns text, PRIMARY KEY (client_id, resource)"
)
STAGE = "_daybreak_stage"


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


def resource_state(name: str, rows: int, digest: str, replaced: int, columns: str | None) -> ResourceState:
    """Return the state of a resource from the values of the database. That of an earlier version has no columns."""
    found = [Column(*each.split(" ")) for each in (columns or "").split(",") if each]
    former = frozenset(column.name for column in found if not column.kind)
    return ResourceState(name, rows, digest, replaced, tuple(each for each in found if each.kind), former)


def names_recorded(rows: Iterable[tuple[str | None]]) -> frozenset[str]:
    """Return the names of all columns, also former ones, in these values of a state."""
    return frozenset(each.split(" ")[0] for (text,) in rows for each in (text or "").split(",") if each)


def types_by_table(rows: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    """Return the types of columns by table, from rows of table, column and type."""
    found: dict[str, dict[str, str]] = {}
    for table, column, data_type in rows:
        found.setdefault(table, {})[column] = data_type
    return found


def lacking_columns(
    tables: Sequence[Table], found: Mapping[str, Mapping[str, str]], accepted: Mapping[str, Collection[str]]
) -> set[str]:
    """Return the tables that do not exist or lack a column.

    Raises WrongUse for a column of another type, and for a table without accounts, which the sync did not create.

    `found` contains the types of existing columns by table. `accepted` contains the types of each kind.
    """
    lacking = set()
    for table in tables:
        types = found.get(table.name, {})
        if types and LEADER_COLUMN not in types:
            raise WrongUse(
                f"The database contains another table {table.name}, without the column {LEADER_COLUMN}. "
                "Select a schema for the tables of the sync with --schema."
            )
        for column in table.columns:
            if column.name not in types:
                lacking.add(table.name)
            elif types[column.name].lower() not in accepted[column.kind]:
                raise WrongUse(
                    f"Column {table.name}.{column.name} has the type {types[column.name]}, not {column.kind}. "
                    f"Drop the table {table.name}, or change the type of the column, and run the sync again."
                )
    return lacking
