"""How statements are run: prepared reads of the hot path, upserts on either database, bulk inserts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlalchemy as sa

from daybreak.state.columns import json_of

_ROWS_PER_STATEMENT = 10_000

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

    Insert: TypeAlias = sqlite.Insert | postgresql.Insert


class PreparedRead:
    """A select whose text is made once per database and then handed straight to the driver.

    The download path runs two of these a request; building and caching them anew each time costs
    more than the database needs to answer. Its parameters are text, and its rows are as the database
    gives them (`columns` reads instants and JSON of either).
    """

    def __init__(
        self, source: sa.FromClause, columns: Sequence[sa.ColumnElement[Any]], *where: sa.ColumnElement[bool]
    ) -> None:
        self._select = sa.select(*columns).select_from(source).where(*where)
        self._texts: dict[str, tuple[str, tuple[str, ...]]] = {}

    def first(self, connection: sa.Connection, **values: str) -> Sequence[Any] | None:
        """The first row, or None."""
        dialect = connection.dialect
        text = self._texts.get(dialect.name)
        if text is None:
            text = self._texts[dialect.name] = self._compile(dialect)
        sql, names = text
        if dialect.name == "sqlite":
            driver: Any = connection.connection.dbapi_connection
            row: Sequence[Any] | None = driver.execute(sql, [values[name] for name in names]).fetchone()
            return row
        row_text: str | None = connection.exec_driver_sql(sql, values).scalar()
        return None if row_text is None else json_of(row_text)

    def _compile(self, dialect: sa.Dialect) -> tuple[str, tuple[str, ...]]:
        select = self._select
        if dialect.name != "sqlite":
            # One JSON array instead of forty columns: each column costs the driver and the toolkit
            # more than reading its value does.
            select = select.with_only_columns(sa.cast(sa.func.json_build_array(*select.selected_columns), sa.Text))
        compiled = select.compile(dialect=dialect)
        return str(compiled), tuple(getattr(compiled, "positiontup", None) or ())


def insert_into(table: sa.Table, dialect: str) -> Insert:
    """The database's own insert, which knows `on_conflict_do_update`. The other database's part of SQLAlchemy is not
    loaded: it costs the start of each command a fiftieth of a second.
    """
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


def upsert(
    connection: sa.Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    keys: Sequence[str],
    change: Collection[str] | None = None,
    only_if: Sequence[str] = (),
) -> None:
    """Inserts each row, or changes the one with the same `keys`, in one atomic statement a row.

    All rows name the same columns. `change` names those that an existing row takes over (all but the keys when None);
    it is left alone unless its `only_if` columns equal the new ones.
    """
    if not rows:
        return
    names = tuple(rows[0])
    changed = tuple(name for name in names if name not in keys) if change is None else tuple(change)
    connection.execute(_upserting(connection.dialect.name, table, tuple(keys), changed, tuple(only_if)), list(rows))


@lru_cache(maxsize=64)
def _upserting(
    dialect: str, table: sa.Table, keys: tuple[str, ...], changed: tuple[str, ...], only_if: tuple[str, ...]
) -> sa.Executable:
    insert = insert_into(table, dialect)
    guard = sa.and_(*(table.c[name] == insert.excluded[name] for name in only_if)) if only_if else None
    return insert.on_conflict_do_update(
        index_elements=list(keys),
        set_={name: insert.excluded[name] for name in changed},
        where=guard,
    )


class BulkInsert:
    """Rows of plain values into one table, many at once, without a look at each by the toolkit.

    A row holds the columns in the table's order, as the driver takes them, but for one that counts up by itself.
    """

    def __init__(self, table: sa.Table) -> None:
        given = [column.name for column in table.columns if column.autoincrement is not True]
        self._names = ", ".join(given)
        self._width = len(given)
        self._table = table.name

    def run(self, connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Inserts all rows within the transaction of the connection."""
        driver: Any = connection.connection.driver_connection
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            some = rows[start : start + _ROWS_PER_STATEMENT]
            if connection.dialect.name == "postgresql" and not connection.dialect.is_async:
                self._copy(driver, some)
            else:
                mark = "?" if connection.dialect.name == "sqlite" else "%s"
                marks = ", ".join([mark] * self._width)
                connection.exec_driver_sql(
                    f"INSERT INTO {self._table} ({self._names}) VALUES ({marks})",  # noqa: S608 - our own names
                    list(some),
                )

    def _copy(self, driver: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        """By PostgreSQL's own way for bulk: more than twice as fast as statements."""
        import psycopg

        try:
            with driver.cursor() as cursor, cursor.copy(f"COPY {self._table} ({self._names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            # As the toolkit wraps the errors of its own statements.
            raise sa.exc.DBAPIError.instance(
                f"COPY {self._table}", None, error, psycopg.Error, connection_invalidated=driver.closed
            ) from error
