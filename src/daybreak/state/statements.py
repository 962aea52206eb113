"""How statements are run: prepared reads of the hot path, upserts on either database, bulk inserts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


class PreparedRead:
    """A select whose text is made once per database and then handed straight to the driver.

    The download path runs two of these a request; building and caching them anew each time costs
    more than SQLite needs to answer. Its parameters are text, and its rows are as the driver gives
    them (see `columns` for instants and JSON).
    """

    def __init__(self, select: sa.Select[Any]) -> None:
        self._select = select
        self._texts: dict[str, tuple[str, tuple[str, ...]]] = {}

    def first(self, connection: sa.Connection, **values: str) -> Sequence[Any] | None:
        """The first row, or None."""
        dialect = connection.dialect
        text = self._texts.get(dialect.name)
        if text is None:
            text = self._texts[dialect.name] = self._compile(dialect)
        sql, names = text
        if dialect.name == "sqlite":
            driver: Any = connection.connection.driver_connection
            row: Sequence[Any] | None = driver.execute(sql, [values[name] for name in names]).fetchone()
            return row
        return connection.exec_driver_sql(sql, values).first()

    def _compile(self, dialect: sa.Dialect) -> tuple[str, tuple[str, ...]]:
        compiled = self._select.compile(dialect=dialect)
        return str(compiled), tuple(getattr(compiled, "positiontup", None) or ())


def upsert(
    connection: sa.Connection,
    table: sa.Table,
    values: Mapping[str, Any],
    *,
    keys: Sequence[str],
    change: Collection[str] | None = None,
    only_if: Sequence[str] = (),
) -> None:
    """Inserts one row, or changes the one with the same `keys`, in one atomic statement.

    `change` names the columns that an existing row takes over (all but the keys when None); it is
    left alone unless its `only_if` columns equal the new ones.
    """
    make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    insert = make(table).values(**values)
    changed = [name for name in values if name not in keys] if change is None else list(change)
    guard = sa.and_(*(table.c[name] == insert.excluded[name] for name in only_if)) if only_if else None
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=list(keys),
            set_={name: insert.excluded[name] for name in changed},
            where=guard,
        )
    )


class BulkInsert:
    """Rows of plain values into one table, many at once, without a look at each by the toolkit.

    A row holds the columns in the table's order, as the driver takes them.
    """

    def __init__(self, table: sa.Table, rows_per_statement: int = 5_000) -> None:
        self._names = [column.name for column in table.columns]
        self._table = table.name
        self._rows_per_statement = rows_per_statement

    def run(self, connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Inserts all rows within the transaction of the connection."""
        mark = "?" if connection.dialect.name == "sqlite" else "%s"
        sql = f"INSERT INTO {self._table} ({', '.join(self._names)}) VALUES ({', '.join([mark] * len(self._names))})"  # noqa: S608 - names of our own schema
        for start in range(0, len(rows), self._rows_per_statement):
            connection.exec_driver_sql(sql, list(rows[start : start + self._rows_per_statement]))
