"""Tables, columns, keys and indexes of a schema in a DuckDB file."""

from collections.abc import Callable, Sequence
from typing import Any

from daybreak_client.database_sync.database import types_by_table
from daybreak_client.tables import Table

Query = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]


class Catalog:
    """Catalog of a schema.

    A query of one of DuckDB's table functions visits all tables and takes milliseconds, so results are kept until
    `forget`.
    """

    def __init__(self, query: Query, database: str, schema: str) -> None:
        self._query = query
        self._place = (database, schema)
        self._known: dict[str, list[tuple[Any, ...]]] = {}

    def forget(self) -> None:
        """Read the catalog again for the next call, after a change of tables."""
        self._known.clear()

    def columns(self) -> dict[str, dict[str, str]]:
        """Return the types of the columns of all tables."""
        return types_by_table([row[:3] for row in self._columns()])

    def has_key(self, table: Table) -> bool:
        """Return whether a table has the primary key that the sync adds."""
        return {*self.primary_key(table)} == {*table.primary_key} != set()

    def primary_key(self, table: Table) -> Sequence[str]:
        """Return the columns of the primary key of a table, in any order."""
        return [
            column
            for name, kind, columns, _, _ in self._constraints()
            if (name, kind) == (table.name, "PRIMARY KEY")
            for column in columns
        ]

    def indexed(self, table: Table) -> str:
        """Return the expressions of the indexes of the user on a table."""
        return "".join(expressions for name, _, expressions in self._indexes() if name == table.name)

    def additions(self, table: Table) -> list[str]:
        """Return what the user has added to a table and a copy of it would lack."""
        key = {*self.primary_key(table)} if self.has_key(table) else set()
        columns = [row[1:] for row in self._columns() if row[0] == table.name]
        return [
            *(f"column {name}" for name, *_ in columns if name not in table.column_names),
            *(f"default of {name}" for name, _, has_default, _ in columns if has_default),
            *(f"comment on {name}" for name, _, _, has_comment in columns if has_comment),
            *(f"comment on {name}" for (name,) in self._commented() if name == table.name),
            *(f"index {index}" for name, index, _ in self._indexes() if name == table.name),
            *(f"trigger {trigger}" for name, trigger in self._triggers() if name == table.name),
            *(
                f"constraint {constraint}"
                for name, kind, names, constraint, _ in self._constraints()
                if name == table.name and not (kind in {"PRIMARY KEY", "NOT NULL"} and {*names} <= key)
            ),
            *(
                f"foreign key of {name}"
                for name in dict.fromkeys(
                    name
                    for name, kind, _, _, referenced in self._constraints()
                    if (kind, referenced) == ("FOREIGN KEY", table.name)
                )
            ),
        ]

    def _columns(self) -> list[tuple[Any, ...]]:
        flags = "column_default IS NOT NULL, comment IS NOT NULL"
        return self._rows(f"column_name, data_type, {flags}", "duckdb_columns()", "NOT internal")

    def _constraints(self) -> list[tuple[Any, ...]]:
        values = "constraint_type, constraint_column_names, constraint_name, referenced_table"
        return self._rows(values, "duckdb_constraints()")

    def _indexes(self) -> list[tuple[Any, ...]]:
        return self._rows("index_name, expressions", "duckdb_indexes()")

    def _triggers(self) -> list[tuple[Any, ...]]:
        return self._rows("trigger_name", "duckdb_triggers()")

    def _commented(self) -> list[tuple[Any, ...]]:
        return self._rows("", "duckdb_tables()", "comment IS NOT NULL")

    def _rows(self, values: str, function: str, condition: str = "true") -> list[tuple[Any, ...]]:
        """Return the names of tables and `values` from a table function. `values` is the same in all calls."""
        if function not in self._known:
            self._known[function] = self._query(
                f"SELECT {', '.join(filter(None, ('table_name', values)))} FROM {function} "
                f"WHERE database_name = ? AND schema_name = ? AND {condition}",
                self._place,
            )
        return self._known[function]
