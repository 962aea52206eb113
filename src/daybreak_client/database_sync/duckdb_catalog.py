"""Tables, columns, keys and indexes of a schema in a DuckDB file."""

from collections.abc import Callable, Sequence
from typing import Any

from daybreak_client.database_sync.database import types_by_table
from daybreak_client.tables import Table

Query = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
_COLUMNS = (
    "duckdb_columns()",
    "table_name, column_name, data_type, column_default IS NOT NULL, comment IS NOT NULL",
    "NOT internal",
)
_CONSTRAINTS = (
    "duckdb_constraints()",
    "table_name, constraint_type, constraint_column_names, constraint_name, referenced_table",
)
_INDEXES = ("duckdb_indexes()", "table_name, index_name, expressions")
_TRIGGERS = ("duckdb_triggers()", "table_name, trigger_name")
_COMMENTED = ("duckdb_tables()", "table_name", "comment IS NOT NULL")


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
        return types_by_table([row[:3] for row in self._rows(*_COLUMNS)])

    def has_key(self, table: Table) -> bool:
        """Return whether a table has the primary key that the sync adds."""
        return {*self.primary_key(table)} == {*table.primary_key} != set()

    def primary_key(self, table: Table) -> Sequence[str]:
        """Return the columns of the primary key of a table, in any order."""
        return [
            column
            for name, kind, columns, _, _ in self._rows(*_CONSTRAINTS)
            if (name, kind) == (table.name, "PRIMARY KEY")
            for column in columns
        ]

    def indexed(self, table: Table) -> str:
        """Return the expressions of the indexes of the user on a table."""
        return "".join(expressions for name, _, expressions in self._rows(*_INDEXES) if name == table.name)

    def additions(self, table: Table) -> list[str]:
        """Return what the user has added to a table and a copy of it would lack."""
        key = {*self.primary_key(table)} if self.has_key(table) else set()
        columns = [row[1:] for row in self._rows(*_COLUMNS) if row[0] == table.name]
        return [
            *(f"column {name}" for name, *_ in columns if name not in table.column_names),
            *(f"default of {name}" for name, _, has_default, _ in columns if has_default),
            *(f"comment on {name}" for name, _, _, has_comment in columns if has_comment),
            *(f"comment on {name}" for (name,) in self._rows(*_COMMENTED) if name == table.name),
            *(f"index {index}" for name, index, _ in self._rows(*_INDEXES) if name == table.name),
            *(f"trigger {trigger}" for name, trigger in self._rows(*_TRIGGERS) if name == table.name),
            *(
                f"constraint {constraint}"
                for name, kind, names, constraint, _ in self._rows(*_CONSTRAINTS)
                if name == table.name and not (kind in {"PRIMARY KEY", "NOT NULL"} and {*names} <= key)
            ),
            *(
                f"foreign key of {name}"
                for name in dict.fromkeys(
                    name
                    for name, kind, _, _, referenced in self._rows(*_CONSTRAINTS)
                    if (kind, referenced) == ("FOREIGN KEY", table.name)
                )
            ),
        ]

    def _rows(self, function: str, values: str, condition: str = "true") -> list[tuple[Any, ...]]:
        """Return values from a table function of DuckDB."""
        if function not in self._known:
            query = f"SELECT {values} FROM {function} WHERE database_name = ? AND schema_name = ? AND {condition}"
            self._known[function] = self._query(query, self._place)
        return self._known[function]
