"""Tables of the nine resources, as `GET /download/v1/schema` describes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from daybreak_client import wire

LEADER_COLUMN = "LEADER_ID"
UUID, TEXT, BIGINT, BOOLEAN, DATE, TIMESTAMP = "uuid", "text", "bigint", "boolean", "date", "timestamp"
_KINDS = {"string": TEXT, "integer": BIGINT, "boolean": BOOLEAN, "date": DATE, "datetime": TIMESTAMP}
# Kinds whose values are quoted in CSV files.
QUOTED_KINDS = frozenset({UUID, TEXT})


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its kind of value: uuid, text, bigint, boolean, date or timestamp."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Table:
    """A resource as a table. `key` orders the rows of a file. `key_is_unique` within the rows of one account."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    key_is_unique: bool

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds of the columns by name."""
        return {column.name: column.kind for column in self.columns}

    def with_columns(self, columns: Sequence[Column]) -> "Table":
        """Return the table of a version with these columns. Raises InvalidValue."""
        if tuple(columns) == self.columns:
            return self
        names = {column.name for column in columns}
        if len({name.lower() for name in names}) != len(columns) or LEADER_COLUMN not in names:
            raise wire.InvalidValue(f"columns of {self.name} are invalid")
        if not names.issuperset(self.key):
            raise wire.InvalidValue(f"{self.name} lacks columns of its key")
        return replace(self, columns=tuple(columns))

    @property
    def total_order(self) -> tuple[str, ...]:
        """All columns: those of the key, then the others in file order. Rows are equal if these are."""
        return (*self.key, *(name for name in self.column_names if name not in self.key))

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Columns of the primary key, empty without one. It begins with LEADER_ID, by which all statements select rows.

        A Member that moves may be in the rows of two accounts.
        """
        if not self.key_is_unique:
            return ()
        return (LEADER_COLUMN, *(name for name in self.key if name != LEADER_COLUMN))


def parse_tables(response: Mapping[str, Any]) -> tuple[Table, ...]:
    """Parse a data package."""
    tables = wire.items(wire.mapping(response)["resources"], _table)
    if len({table.name for table in tables}) != len(tables):
        raise wire.InvalidValue("a table is listed twice")
    return tables


def released_tables() -> tuple[Table, ...]:
    """Return the tables of a service of the same version as this package."""
    return parse_tables(json.loads((files("daybreak_client") / "columns.json").read_text("utf-8")))


def _table(resource: Mapping[str, Any]) -> Table:
    name, schema = wire.resource(resource["name"]), wire.mapping(resource["schema"])
    columns = wire.items(schema["fields"], _column)
    key = tuple(map(wire.name, resource["order"]))
    names = {column.name for column in columns}
    if len({each.lower() for each in names}) != len(columns):
        raise wire.InvalidValue("a column is listed twice")
    if not key or not set(key) <= names or len(set(key)) != len(key) or Column(LEADER_COLUMN, UUID) not in columns:
        raise wire.InvalidValue(f"columns of the key of {name} or {LEADER_COLUMN} are invalid")
    return Table(name, columns, key, bool(schema.get("primaryKey")))


def _column(field: Mapping[str, Any]) -> Column:
    return Column(wire.name(field["name"]), UUID if field.get("format") == "uuid" else _KINDS[field["type"]])
