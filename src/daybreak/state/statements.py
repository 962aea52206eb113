"""Base of the stores, prepared reads for the request path, upserts on both databases, and bulk inserts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import sqlalchemy as sa

from daybreak.state.columns import conversion_of, json_of
from daybreak.state.schema import counters

T = TypeVar("T")

_ROWS_PER_STATEMENT = 10_000

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

    Insert: TypeAlias = sqlite.Insert | postgresql.Insert


class Store:
    """Base of the stores: statements on the connection of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute

    def _first(self, statement: sa.Executable, make: Callable[..., T]) -> T | None:
        """Return `make(*row)` of the first row, None without a row."""
        row = self._execute(statement).first()
        return None if row is None else make(*row)

    def _all(self, statement: sa.Executable, make: Callable[..., T]) -> list[T]:
        """Return `make(*row)` of each row."""
        return [make(*row) for row in self._execute(statement)]

    def _changes(self, statement: sa.Executable) -> int:
        return self._execute(statement).rowcount

    def _change(self, table: sa.Table, row_id: str, *conditions: sa.ColumnElement[bool], **values: Any) -> bool:
        """Change the row with this primary key if it fulfills the conditions. Return whether it was changed."""
        (key,) = table.primary_key.columns
        return self._changes(sa.update(table).where(key == row_id, *conditions).values(values)) == 1

    def _number_of(self, table: sa.FromClause, *conditions: sa.ColumnElement[bool]) -> int:
        """Return the number of rows that fulfill the conditions."""
        return self._execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one()

    def _insert_into(self, table: sa.Table) -> Insert:
        return insert_into(table, self._connection.dialect.name)

    def _upsert(
        self,
        table: sa.Table,
        rows: Sequence[Mapping[str, Any]],
        *,
        change: Collection[str] | None = None,
        only_if: Sequence[str] = (),
    ) -> None:
        """Insert each row, or update the row with the same primary key, with one atomic statement per row.

        Args:
            table: Table to change.
            rows: Values by column name. All rows have the same columns.
            change: Columns to update in an existing row; None means all but the key.
            only_if: Columns that must be equal for an update.
        """
        if rows:
            changed = None if change is None else tuple(change)
            dialect = self._connection.dialect.name
            self._execute(_upsert_statement(dialect, table, tuple(rows[0]), changed, tuple(only_if)), list(rows))

    def _counter(self, name: str) -> int:
        value: int = self._execute(sa.select(counters.c.value).where(counters.c.name == name)).scalar_one()
        return value

    def _count(self, name: str) -> int:
        """Increment a counter and return its new value. The counter stays locked until the transaction ends."""
        value: int = self._execute(
            sa.update(counters)
            .where(counters.c.name == name)
            .values(value=counters.c.value + 1)
            .returning(counters.c.value)
        ).scalar_one()
        return value

    def _reseal(
        self, table: sa.Table, columns: Sequence[sa.Column[Any]], reseal: Callable[[str, str], str | None]
    ) -> int:
        """Replace each encrypted value by `reseal(id, sealed)`; None keeps it. Returns the number replaced."""
        (key,), replaced = table.primary_key.columns, 0
        has_value = sa.or_(*(column.is_not(None) for column in columns))
        for owner_id, *values in self._execute(sa.select(key, *columns).where(has_value).with_for_update()).all():
            for column, sealed in zip(columns, values, strict=True):
                again = None if sealed is None else reseal(owner_id, sealed)
                if again is not None and again != sealed:
                    replaced += self._changes(sa.update(table).where(key == owner_id).values({column: again}))
        return replaced


class PreparedRead:
    """SELECT that is compiled once per database and passed directly to the driver.

    A download runs two of these. Compiling the statement, or finding it in SQLAlchemy's cache, takes longer than
    running it. Parameters are text. Values have the types of their columns. With the parameter `limit`, rows have few
    columns.
    """

    def __init__(
        self,
        source: sa.FromClause,
        columns: Sequence[sa.ColumnElement[Any]],
        *where: sa.ColumnElement[bool],
        order_by: Sequence[sa.ColumnElement[Any]] = (),
        limit: sa.BindParameter[int] | None = None,
    ) -> None:
        select = sa.select(*columns).select_from(source).where(*where).order_by(*order_by)
        # SQLite has an OFFSET with each LIMIT, which would be a parameter.
        self._select = select if limit is None else select.limit(limit).offset(sa.literal_column("0"))
        self._has_limit = limit is not None
        conversions = enumerate(conversion_of(column.type) for column in columns)
        self._conversions = [(index, convert) for index, convert in conversions if convert is not None]
        self._texts: dict[str, tuple[str, tuple[str, ...]]] = {}

    def first(self, connection: sa.Connection, **values: str) -> Sequence[Any] | None:
        """Return the first row, or None."""
        row = next(self._rows(connection, values), None)
        return None if row is None else self._converted(row, connection.dialect)

    def all(self, connection: sa.Connection, **values: str) -> list[Sequence[Any]]:
        """Return all rows."""
        rows = self._rows(connection, values)
        return [self._converted(row, connection.dialect) for row in rows] if self._conversions else list(rows)

    def _converted(self, row: Sequence[Any], dialect: sa.Dialect) -> Sequence[Any]:
        values = list(row)
        for index, convert in self._conversions:
            values[index] = convert(values[index], dialect)
        return values

    def _rows(self, connection: sa.Connection, values: Mapping[str, str]) -> Iterator[Sequence[Any]]:
        dialect = connection.dialect
        text = self._texts.get(dialect.name)
        if text is None:
            text = self._texts[dialect.name] = self._compile(dialect)
        sql, names = text
        if dialect.name == "sqlite":
            driver: Any = connection.connection.dbapi_connection
            cursor: Iterator[Sequence[Any]] = driver.execute(sql, [values[name] for name in names])
            return cursor
        found = connection.exec_driver_sql(sql, values)
        return iter(found.all()) if self._has_limit else map(json_of, found.scalars())

    def _compile(self, dialect: sa.Dialect) -> tuple[str, tuple[str, ...]]:
        select = self._select
        if dialect.name != "sqlite" and not self._has_limit:
            # One JSON array instead of forty columns: decoding it takes less time than the driver's work per column.
            select = select.with_only_columns(sa.cast(sa.func.json_build_array(*select.selected_columns), sa.Text))
        compiled = select.compile(dialect=dialect)
        return str(compiled), tuple(getattr(compiled, "positiontup", None) or ())


def insert_into(table: sa.Table, dialect: str) -> Insert:
    """Return the INSERT of the dialect, which has `on_conflict_do_update`.

    Only the dialect in use is imported: each takes 20 ms of the start of a command.
    """
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


@lru_cache(maxsize=64)
def _upsert_statement(
    dialect: str, table: sa.Table, names: tuple[str, ...], change: tuple[str, ...] | None, only_if: tuple[str, ...]
) -> sa.Executable:
    insert, keys = insert_into(table, dialect), [column.name for column in table.primary_key]
    changed = change or [name for name in names if name not in keys]
    guard = sa.and_(*(table.c[name] == insert.excluded[name] for name in only_if)) if only_if else None
    return insert.on_conflict_do_update(
        index_elements=keys, set_={name: insert.excluded[name] for name in changed}, where=guard
    )


class BulkInsert:
    """Insert of many rows, without SQLAlchemy's processing of each value.

    A row has the columns in the order of the table, without generated ones, as values that the driver accepts.
    """

    def __init__(self, table: sa.Table) -> None:
        names = [column.name for column in table.columns if column.autoincrement is not True]
        self._names = ", ".join(names)
        self._width = len(names)
        self._table = table.name

    def run(self, connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert all rows in the transaction of the connection."""
        driver: Any = connection.connection.driver_connection
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            batch = rows[start : start + _ROWS_PER_STATEMENT]
            if connection.dialect.name == "postgresql" and not connection.dialect.is_async:
                self._copy(driver, batch)
            else:
                placeholder = "?" if connection.dialect.name == "sqlite" else "%s"
                placeholders = ", ".join([placeholder] * self._width)
                connection.exec_driver_sql(
                    f"INSERT INTO {self._table} ({self._names}) VALUES ({placeholders})",  # noqa: S608 - names of the schema
                    list(batch),
                )

    def _copy(self, driver: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert with COPY, more than twice as fast as statements."""
        import psycopg

        try:
            with driver.cursor() as cursor, cursor.copy(f"COPY {self._table} ({self._names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            # As SQLAlchemy wraps errors of its statements.
            raise sa.exc.DBAPIError.instance(
                f"COPY {self._table}", None, error, psycopg.Error, connection_invalidated=driver.closed
            ) from error
