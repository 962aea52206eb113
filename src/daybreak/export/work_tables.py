"""Temporary tables of an export: one object creates and drops all tables that are derived from a resource's rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

import duckdb

from daybreak.catalogue.columns import Column
from daybreak.catalogue.resources import Resource
from daybreak.export.row_figures import TIMES, cast_value, exported_in_range, row_figures
from daybreak.export.sql import identifier
from daybreak.export.survey import SUM_MODULUS


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
    """One resource's rows as the FROM item `rows`, in the catalogue's types and with `row_figures`, and the tables
    derived from it, which are temporary, and visible only on `connection`.

    Times that files cannot contain are NULL in `rows`.
    """

    SORTED_ROWS = "sorted_rows"

    def __init__(self, connection: duckdb.DuckDBPyConnection, resource: Resource, query: str) -> None:
        self.connection = connection
        self.resource = resource
        # A view would be bound when it is created, and again when it is used.
        values = {column.name: _exported(column) for column in resource.columns} | row_figures(resource)
        columns = ", ".join(f"{value} AS {identifier(name)}" for name, value in values.items())
        self.rows = f"(SELECT {columns} FROM ({query}))"

    def totals(
        self, sums: Sequence[str], counts: Sequence[str], known: Collection[str]
    ) -> tuple[list[tuple[Any, ...]], list[int], int]:
        """Return each known Leader with rows, with the number of its rows and the sums modulo 2^64, sorted; the counts
        over the rows of known Leaders; and the number of other rows.

        The counts of single Leaders stay in the engine. As objects of Python, they take longer than reading the rows.
        """
        sum_names = [f"sum_{place}" for place in range(len(sums))]
        count_names = [f"count_{place}" for place in range(len(counts))]
        values = zip((*sums, *counts), (*sum_names, *count_names), strict=True)
        self.connection.execute(
            'CREATE OR REPLACE TEMP TABLE leader_totals AS SELECT CAST("LEADER_ID" AS VARCHAR) AS leader, '
            f"count(*) AS row_count, {', '.join(f'{value} AS {name}' for value, name in values)} "
            f'FROM {self.rows} GROUP BY "LEADER_ID"'
        )
        # The remainder of a negative number is negative in SQL.
        positive = (f"CAST(({name} % {SUM_MODULUS} + {SUM_MODULUS}) % {SUM_MODULUS} AS UBIGINT)" for name in sum_names)
        found = self.connection.execute(
            f"SELECT leader, row_count, {', '.join(positive)} FROM leader_totals ORDER BY leader"
        ).fetchall()
        unknown = {leader: rows for leader, rows, *_ in found if leader not in known}
        [total_counts] = self.connection.execute(
            f"SELECT {', '.join(f'coalesce(sum({name}), 0)' for name in count_names)} FROM leader_totals "
            "ANTI JOIN (SELECT unnest(CAST($1 AS VARCHAR[])) AS other) ON leader IS NOT DISTINCT FROM other",
            [list(unknown)],
        ).fetchall()
        return [row for row in found if row[0] not in unknown], list(total_counts), sum(unknown.values())

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


def _exported(column: Column) -> str:
    """Return SQL for the value in files: NULL for a time outside the years 1 to 9999."""
    value = cast_value(column)
    return f"CASE WHEN {exported_in_range(column)} THEN {value} END" if column.type in TIMES else value
