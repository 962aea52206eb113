"""Columns of a version: a stored version keeps those that it was made with, which may differ from today's schema."""

from collections.abc import Iterator
from pathlib import Path

from daybreak_client import wire
from daybreak_client.database_sync.csv_files import columns_of
from daybreak_client.database_sync.database import Database, WrongContent
from daybreak_client.database_sync.merge import OPERATION
from daybreak_client.database_sync.plan import DELTA, FULL, AccountState, Plan, Step
from daybreak_client.errors import Damaged, WrongUse
from daybreak_client.published import PublishedSnapshot
from daybreak_client.tables import TEXT, Column, Table


def stored_table(table: Table, state: AccountState | None, published: PublishedSnapshot | None = None) -> Table:
    """Return a table with the columns that the database contains of an account.

    Their kinds are those of the schema `table`, and those of the stored version if it is still `published`.
    """
    stored = state.resources.get(table.name) if state else None
    if state is None or stored is None:
        return table
    if published is None or published.snapshot_id == state.snapshot_id:
        return table.with_columns(stored.columns)
    kinds = table.kinds
    return table.with_columns([Column(each.name, kinds.get(each.name, each.kind)) for each in stored.columns])


def version_tables(plan: Plan, database: Database, folder: Path) -> Iterator[Table]:
    """Yield the tables of the version that a plan leads to, with the columns of its files, which are in `folder`.

    Raises Damaged, WrongContent for deltas of other columns, and WrongUse for a column of the user with the name of a
    new one.
    """
    assert plan.published is not None
    tables = {table.name: table for table in plan.tables}
    for step in plan.steps:
        before = stored_table(tables[step.resource], plan.state, plan.published)
        if step.action == FULL:
            table = _table_of_file(tables[step.resource], folder / step.full.name, database, before)
            _check_new_columns(table, database)
        else:
            table = before
            if step.action == DELTA:
                _check_deltas(step, table, folder)
        if table.name in database.missing_tables([table]) and step.action == DELTA:
            raise WrongContent(table.name, "the table lacks a column")
        yield table


def _table_of_file(table: Table, file: Path, database: Database, stored: Table) -> Table:
    """Return a table with the columns of a full file. Raises Damaged.

    Kinds are those of the stored version, else of the schema, else of the database.
    """
    kinds = {**database.columns(table.name), **table.kinds, **stored.kinds}
    try:
        return table.with_columns([Column(wire.name(name), kinds.get(name, TEXT)) for name in columns_of(file)])
    except wire.InvalidValue as error:
        raise Damaged(f"{file.name}: {error}.") from None


def _check_deltas(step: Step, table: Table, folder: Path) -> None:
    """Check that deltas have the columns of the stored version. A change of columns needs a full load."""
    for file in step.files:
        names = columns_of(folder / file.name)
        if names[0] != OPERATION:
            raise Damaged(f"{file.name} does not begin with the column {OPERATION}.")
        if names[1:] != table.column_names:
            raise WrongContent(table.name, "the columns have changed")


def _check_new_columns(table: Table, database: Database) -> None:
    """Check that no column of the user has the name of a column that this version adds. Raises WrongUse."""
    known = {name.lower() for name in database.added_columns(table.name)}
    if not known:
        return
    found = {name.lower(): name for name in database.columns(table.name)}
    for name in table.column_names:
        if name.lower() in found.keys() - known:
            raise WrongUse(
                f"The service has added the column {name} to {table.name}, and the table has a column "
                f"{found[name.lower()]} of yours. Rename yours, and run the sync again."
            )
