"""Temporary tables of an export: one object creates and drops all tables that are derived from a resource's rows."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol

import duckdb

from daybreak.catalogue.columns import TIMES, Column
from daybreak.catalogue.key_sql import KEY_SQL, in_range
from daybreak.catalogue.resources import Resource
from daybreak.catalogue.written_sums import KEY_PARTS, SUMMED_COLUMNS, figure_names
from daybreak.export.engine import ENGINE_TYPES
from daybreak.export.job import RowCounts
from daybreak.export.sql import identifier, literal
from daybreak.export.survey import SUM_MODULUS, LeaderTotals


class EmbeddedRows(Protocol):
    """Rows of the nine resources, for queries in the embedded engine."""

    def leaders(self) -> list[str]:
        """Return every Leader with files: lower-case UUID text, sorted."""

    def rows_query(self, resource: str) -> str:
        """Return a SELECT of the resource's columns, rows in any order. It may be run repeatedly: results that are
        expensive to compute are kept by the implementation.
        """

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Open a connection on which the queries run, for one thread and one open result. The caller closes it."""


class WorkTables:
    """One resource's rows as the FROM item `rows`, in the catalogue's types, and the tables derived from it, which are
    temporary, and visible only on `connection`.

    Times that files cannot contain are NULL in `rows`. Its other columns are `figure_N`, whose sums by Leader are the
    figures of written files, and `outside_NAME`, which is 1 if files cannot contain the time NAME, else 0.
    """

    SORTED_ROWS = "sorted_rows"

    def __init__(self, connection: duckdb.DuckDBPyConnection, resource: Resource, query: str) -> None:
        self.connection = connection
        self.resource = resource
        # A view would be bound when it is created, and again when it is used.
        values = {column.name: _exported(column) for column in resource.columns}
        values |= {f"figure_{place}": value for place, value in enumerate(_figures(resource))}
        values |= {
            f"outside_{column.name}": f"coalesce(CAST(NOT {_in_range(column)} AS BIGINT), 0)"
            for column in _source_times(resource)
        }
        columns = ", ".join(f"{value} AS {identifier(name)}" for name, value in values.items())
        self.rows = f"(SELECT {columns} FROM ({query}))"

    def totals(self, known: Collection[str]) -> tuple[list[LeaderTotals], RowCounts]:
        """Return the totals of known Leaders with rows, sorted, and the counts over their rows.

        Two 64-bit hashes cover a row. They combine the hashes of its cells in opposite order, and are hashed again,
        because the engine combines by XOR: values that two rows exchange could leave the sum unchanged.

        The counts of single Leaders stay in the engine. As objects of Python, they take longer than reading the rows.
        """
        names = [identifier(column.name) for column in self.resource.columns]
        sums = [f"sum(hash(hash({', '.join(each)})))" for each in (names, names[::-1])]
        sums += (f"sum(figure_{place})" for place in range(len(figure_names(self.resource.name))))
        nulls = {column.name: f"count(*) - count({identifier(column.name)})" for column in self.resource.columns}
        unexpected = _unexpected_counts(self.resource)
        counts = (*nulls.values(), *unexpected.values())
        values = [f"{value} AS sum_{place}" for place, value in enumerate(sums)]
        values += (f"{value} AS count_{place}" for place, value in enumerate(counts))
        self.connection.execute(
            'CREATE OR REPLACE TEMP TABLE leader_totals AS SELECT CAST("LEADER_ID" AS VARCHAR) AS leader, '
            f'count(*) AS row_count, {", ".join(values)} FROM {self.rows} GROUP BY "LEADER_ID"'
        )
        # The remainder of a negative number is negative in SQL.
        positive = (
            f"CAST((sum_{place} % {SUM_MODULUS} + {SUM_MODULUS}) % {SUM_MODULUS} AS UBIGINT)"
            for place in range(len(sums))
        )
        found = self.connection.execute(
            f"SELECT leader, row_count, {', '.join(positive)} FROM leader_totals ORDER BY leader"
        ).fetchall()
        unknown = {leader: rows for leader, rows, *_ in found if leader not in known}
        added = ", ".join(f"coalesce(sum(count_{place}), 0)" for place in range(len(counts)))
        [counted] = self.connection.execute(
            f"SELECT {added} FROM leader_totals "
            "ANTI JOIN (SELECT unnest(CAST($1 AS VARCHAR[])) AS other) ON leader IS NOT DISTINCT FROM other",
            [list(unknown)],
        ).fetchall()
        return [
            LeaderTotals(leader, rows, (first, second), tuple(figures))
            for leader, rows, first, second, *figures in found
            if leader not in unknown
        ], RowCounts(
            dict(zip(nulls, counted, strict=False)),
            {name: count for name, count in zip(unexpected, counted[len(nulls) :], strict=True) if count},
            sum(unknown.values()),
        )

    def number_leaders(self, client_ids: Sequence[str]) -> None:
        """Number the Leaders to export from 0. Replaces earlier numbers."""
        self.connection.execute(
            "CREATE OR REPLACE TEMP TABLE leader_numbers AS "
            "SELECT CAST(id AS UUID) AS numbered_leader, CAST(ordinal - 1 AS INTEGER) AS ordinal "
            "FROM (SELECT unnest($1) AS id, generate_subscripts($1, 1) AS ordinal)",
            [list(client_ids)],
        )

    def rows_of(self, client_ids: Sequence[str]) -> str:
        """Number some Leaders, and return their rows as a FROM item."""
        self.number_leaders(client_ids)
        return f"(SELECT r.* FROM {self.numbered_rows()})"

    def numbered_rows(self) -> str:
        """Return a FROM clause of the numbered Leaders' rows: `ordinal`, and the resource's columns as `r.*`."""
        return f'{self.rows} AS r JOIN leader_numbers ON leader_numbers.numbered_leader = r."LEADER_ID"'

    @property
    def row_order(self) -> str:
        """The ORDER BY list of rows within a file: the key, then the columns that break ties."""
        names = (*self.resource.key, *self.resource.tie_break)
        return ", ".join(f"{identifier(name)} NULLS FIRST" for name in names)

    @contextmanager
    def sorted_rows(self, columns: str) -> Iterator[None]:
        """Create the table SORTED_ROWS for the duration: `ordinal`, `place` from 1, and `columns`, of the numbered
        Leaders' rows by ordinal and `row_order`. The table is stored in that order, so a range of places is read
        without a full scan.
        """
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {self.SORTED_ROWS} AS "
            f"SELECT ordinal, row_number() OVER (ORDER BY ordinal, {self.row_order}) AS place, {columns} "
            f"FROM (SELECT ordinal, r.* FROM {self.numbered_rows()}) ORDER BY place"
        )
        yield
        self.connection.execute(f"DROP TABLE {self.SORTED_ROWS}")


@contextmanager
def open_work_tables(rows: EmbeddedRows, resource: Resource) -> Iterator[WorkTables]:
    """Open the work tables of one resource on a dedicated connection. They are dropped when the context ends."""
    with closing(rows.cursor()) as connection:
        yield WorkTables(connection, resource, rows.rows_query(resource.name))


def _figures(resource: Resource) -> Iterator[str]:
    """Yield SQL for the figures of a row, numbers of 64 bits, in the order of `catalogue.written_sums.figure_names`."""
    parts = [(column.type, _cast(column)) for column in map(resource.column, KEY_PARTS.get(resource.name, ()))]
    if parts:
        yield KEY_SQL["duckdb"].number(parts)
    for column in map(resource.column, SUMMED_COLUMNS.get(resource.name, ())):
        yield f"coalesce({_cast(column)}, 0)"


def _unexpected_counts(resource: Resource) -> dict[str, str]:
    """Return SQL for the number of values, by column, that the catalogue does not list or that files cannot contain."""
    listed = {column.name: ", ".join(map(literal, column.allowed)) for column in resource.columns if column.allowed}
    return {name: f"count(*) FILTER ({identifier(name)} NOT IN ({values}))" for name, values in listed.items()} | {
        column.name: f"sum({identifier(f'outside_{column.name}')})" for column in _source_times(resource)
    }


def _source_times(resource: Resource) -> list[Column]:
    """Return the columns of times whose values come from the source."""
    return [column for column in resource.columns if column.type in TIMES and column.name not in resource.constants]


def _cast(column: Column) -> str:
    """Return SQL for the value of a model's column in the type of the catalogue."""
    return f"CAST({identifier(column.name)} AS {ENGINE_TYPES[column.type]})"


def _in_range(column: Column) -> str:
    """Return a condition: the column of times has a value that files can contain."""
    return in_range(_cast(column), ENGINE_TYPES[column.type])


def _exported(column: Column) -> str:
    """Return SQL for the value in files: NULL for a time outside the years 1 to 9999."""
    return f"CASE WHEN {_in_range(column)} THEN {_cast(column)} END" if column.type in TIMES else _cast(column)
