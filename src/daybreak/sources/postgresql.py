"""PostgreSQL as the source: the models run inside the server, their rows land in the engine.

All nine models see one exported snapshot; a role that may only read is enough. The driver decodes on one
core, so a resource that is not condensed by its model is read in halves over two connections. The
engine puts the rows in order: a sort inside the server is slower and burdens others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.models import REPEATED_TERMS, Model, check_leader_chain, check_terms
from daybreak.catalogue.resources import Resource, resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError
from daybreak.export.lines import quoted
from daybreak.sources.contract import Columns, ModelRefused, check_models, check_tables
from daybreak.sources.dialects import in_dialect
from daybreak.sources.landing import Arrival, Landing, open_landing
from daybreak.sources.postgresql_snapshot import (
    ServerSnapshot,
    first_line,
    open_snapshot,
    reading_connection,
    server_faults,
)
from daybreak.sources.postgresql_times import unwrapped

ACCEPTED_TYPES: Mapping[ColumnType, tuple[str, ...]] = {
    ColumnType.UUID: ("uuid", "text", "character varying", "character"),
    ColumnType.TEXT: ("text", "character varying", "character", "USER-DEFINED", "uuid"),
    ColumnType.BIGINT: ("bigint", "integer", "smallint", "numeric"),
    ColumnType.BOOLEAN: ("boolean",),
    ColumnType.DATE: ("date",),
    ColumnType.TIMESTAMP: ("timestamp with time zone", "timestamp without time zone"),
}

_SENT_AS = {
    ColumnType.UUID: "uuid",
    ColumnType.TEXT: "text",
    ColumnType.BIGINT: "bigint",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "date",
    ColumnType.TIMESTAMP: "timestamp",
}
# Tables are found by the role's search_path, which leaves out schemas it may not use. Policies that would hide rows
# are told too: files must not lack them unnoticed.
_MISSING_GRANTS = """
WITH wanted AS (SELECT name, of_it, to_regclass(name) AS seen FROM unnest(%s::text[], %s::text[]) AS t (name, of_it))
SELECT format('GRANT SELECT ON %%s TO %%I;', seen, current_user) FROM wanted
WHERE NOT has_any_column_privilege(seen, 'SELECT')
UNION
SELECT format('GRANT SELECT (%%I) ON %%s TO %%I;', of_it, seen, current_user) FROM wanted
JOIN pg_attribute AS a ON a.attrelid = seen AND a.attname = of_it AND NOT a.attisdropped
WHERE has_any_column_privilege(seen, 'SELECT') AND NOT has_column_privilege(seen, a.attnum, 'SELECT')
UNION
SELECT format('ALTER ROLE %%I BYPASSRLS;', current_user) FROM wanted WHERE row_security_active(seen)
UNION
SELECT format('GRANT USAGE ON SCHEMA %%I TO %%I;', n.nspname, current_user) FROM wanted
JOIN pg_class AS c ON c.relname = name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE seen IS NULL AND n.nspname = ANY (string_to_array(translate(current_setting('search_path'), ' "', ''), ','))
  AND NOT has_schema_privilege(n.oid, 'USAGE')
ORDER BY 1
"""
# What the role may read of them. A domain counts as the type below it.
_COLUMNS_OF_TABLES = """
WITH RECURSIVE kinds AS (
    SELECT oid AS given, oid AS kind, typtype, typbasetype FROM pg_type
    UNION ALL
    SELECT k.given, t.oid, t.typtype, t.typbasetype FROM kinds AS k JOIN pg_type AS t ON t.oid = k.typbasetype
    WHERE k.typtype = 'd'
)
SELECT c.relname, a.attname, format_type(k.kind, NULL), k.typtype FROM unnest(%s::text[]) AS name
JOIN pg_class AS c ON c.oid = to_regclass(name)
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN kinds AS k ON k.given = a.atttypid AND k.typtype <> 'd'
WHERE has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY c.relname, a.attnum
"""


@dataclass(frozen=True, slots=True)
class PostgresqlSource:
    """A RowSource over a PostgreSQL database (`postgresql://...`), or a read replica of one.

    `memory_bytes`, `threads` and `temp_dir` are for the engine in which the rows land.
    `statement_timeout_seconds` bounds each model; 0 leaves the server's own setting.
    """

    # It may carry a password: no traceback or log shows it.
    location: str = field(repr=False)
    models: Mapping[str, Model]
    _: KW_ONLY
    memory_bytes: int
    threads: int
    temp_dir: Path
    statement_timeout_seconds: int = 0

    engine: ClassVar[str] = "postgresql"

    @contextmanager
    def open(self, as_of: datetime) -> Iterator[PostgresqlReading]:
        """One exported snapshot for one reading. Raises SourceError, SourceUnavailable."""
        with (
            open_landing(
                memory_bytes=self.memory_bytes, threads=self.threads, temp_dir=self.temp_dir, mended=unwrapped
            ) as landing,
            open_snapshot(self.location, timeout_seconds=self.statement_timeout_seconds) as snapshot,
        ):
            yield PostgresqlReading(snapshot, landing, as_of, self.models)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query of the operator's own (`[directory]`), by column name."""
        with (
            reading_connection(self.location) as connection,
            server_faults("A query under [directory]"),
            connection.cursor(row_factory=psycopg.rows.dict_row) as cursor,
        ):
            return cursor.execute(sql.encode()).fetchall()


class PostgresqlReading:
    """One reading; a `daybreak.ports.sources.EmbeddedReading`."""

    def __init__(
        self, snapshot: ServerSnapshot, landing: Landing, as_of: datetime, models: Mapping[str, Model]
    ) -> None:
        self._snapshot = snapshot
        self._keeper = snapshot.keeper
        self._landing = landing
        self._as_of = as_of
        self._models = models
        self._landed: dict[str, str] = {}
        self._leaders: list[str] | None = None
        self._tables: dict[str, Columns] | None = None

    @property
    def as_of(self) -> datetime:
        return self._as_of

    def check(self) -> None:
        """Holds rights, tables, models, Leaders and terms to the contract."""
        with server_faults("The source"):
            self._check_rights()
            check_tables("The source in PostgreSQL", self._columns(), ACCEPTED_TYPES)
            check_models(self._models, self._columns_of_model, ACCEPTED_TYPES)
            pairs = self._keeper.execute(
                "SELECT leader_id::text::uuid::text, parent_leader_id::text::uuid::text FROM leaders"
            ).fetchall()
            repeated = self._keeper.execute(f"{self._with_our_types()}{REPEATED_TERMS}".encode()).fetchone()
        check_leader_chain((row[0], row[1]) for row in pairs)
        check_terms(repeated)

    def leaders(self) -> list[str]:
        """Every Leader of table leaders, sorted."""
        if self._leaders is None:
            with server_faults("Table leaders"):
                rows = self._keeper.execute(
                    "SELECT leader_id::text::uuid::text FROM leaders WHERE leader_id IS NOT NULL"
                ).fetchall()
            self._leaders = sorted(str(row[0]) for row in rows)
        return self._leaders

    def input_bytes(self) -> int:
        """Bytes of the tables' rows on the server; the planner's guess for views, partitioned and foreign tables."""
        with server_faults("The source"):
            sizes = self._keeper.execute(
                "SELECT c.relname, CASE WHEN c.relkind IN ('r', 'm') THEN pg_table_size(c.oid) END "
                "FROM unnest(%s::text[]) AS name JOIN pg_class AS c ON c.oid = to_regclass(name)",
                [[table.name for table in SOURCE_TABLES]],
            ).fetchall()
            return sum(self._guessed_bytes(name) if size is None else int(size) for name, size in sizes)

    def _guessed_bytes(self, table: str) -> int:
        names = ", ".join(quoted(name) for name, _ in self._columns()[table])
        row = self._keeper.execute(f"EXPLAIN (FORMAT json) SELECT {names} FROM {table}".encode()).fetchone()
        plan = row[0][0]["Plan"] if row else {"Plan Rows": 0, "Plan Width": 0}
        return int(plan["Plan Rows"]) * int(plan["Plan Width"])

    def rows(self, resource: str) -> str:
        """Lands the resource's rows when first asked for; later calls read what has landed."""
        if resource not in self._landed:
            known = resource_named(resource)
            arrivals = self._arrivals(known)
            self._landed[resource] = self._landing.land(known, arrivals, repeatable=True, stop=self._snapshot.cancel)
        return self._landed[resource]

    def cursor(self) -> Any:
        return self._landing.cursor()

    def confirm(self) -> None:
        """Asks the keeper once more: its transaction held the snapshot to the end."""
        with server_faults("The source"):
            self._keeper.execute("SELECT 1")

    def _arrivals(self, resource: Resource) -> list[Arrival]:
        model = self._select_of(self._models[resource.name])
        columns = ", ".join(
            f"CAST({quoted(column.name)} AS {_SENT_AS[column.type]}) AS {quoted(column.name)}"
            for column in resource.columns
        )
        select = f"{self._with_our_types()}SELECT {columns} FROM ({model}) AS model"
        if "GROUP BY" in model.upper():
            return [partial(self._snapshot.stream, select)]
        # The server's own hash of an identifier. NULL is in neither half by itself.
        half = f"uuid_hash(CAST({quoted(_identifier(resource))} AS uuid)) & 1"
        return [
            partial(self._snapshot.stream, f"{select} WHERE {half} {which}", one_of_several=True)
            for which in ("= 0", "IS DISTINCT FROM 0")
        ]

    def _select_of(self, model: Model) -> str:
        """The model's SELECT in the server's SQL."""
        sql = model.at(self._as_of)
        return sql if model.is_portable else in_dialect(sql, "postgres")

    def _check_rights(self) -> None:
        read = [(table.name, column.name) for table in SOURCE_TABLES for column in table.columns]
        names, columns = map(list, zip(*read, strict=True))
        grants = self._keeper.execute(_MISSING_GRANTS, [names, columns]).fetchall()
        if grants:
            raise SourceError(
                "The role may not read all of the source. Missing:\n  " + "\n  ".join(g for (g,) in grants)
            )

    def _with_our_types(self) -> str:
        """In front of a SELECT: the tables that keep values in other types than ours, with ours in their place. The
        server compares no text with a UUID, an enum with none but its own values, and a citext without its capitals; a
        count is a whole number before it is added up; instants are without a zone, as in every other source.
        """
        shown = []
        for table in SOURCE_TABLES:
            columns = self._columns().get(table.name, ())
            wanted = {column.name: column.type for column in table.columns}
            casts = [_in_our_type(name, kind, wanted.get(name)) for name, kind in columns]
            if any(casts):
                names = ", ".join(cast or quoted(name) for cast, (name, _) in zip(casts, columns, strict=True))
                shown.append(f"{table.name} AS NOT MATERIALIZED (SELECT {names} FROM {table.name})")
        return f"WITH {', '.join(shown)} " if shown else ""

    def _columns(self) -> dict[str, Columns]:
        """What the tables have; asked once."""
        if self._tables is None:
            with server_faults("The source"):
                self._tables = self._columns_of_tables()
        return self._tables

    def _columns_of_tables(self) -> dict[str, Columns]:
        rows = self._keeper.execute(_COLUMNS_OF_TABLES, [[table.name for table in SOURCE_TABLES]]).fetchall()
        found: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind, family in rows:
            found.setdefault(table, []).append((column, _plain_kind(kind, family)))
        return dict(found)

    def _columns_of_model(self, model: Model) -> Columns:
        sql = self._select_of(model)
        try:
            # A failed statement must not end the transaction that keeps the snapshot.
            with self._keeper.transaction(), self._keeper.cursor() as cursor:
                cursor.execute(f"{self._with_our_types()}SELECT * FROM ({sql}) AS model LIMIT 0".encode())
                described = cursor.description or []
                kinds = cursor.execute(
                    "SELECT format_type(oid, NULL), typtype FROM unnest(%s::oid[]) WITH ORDINALITY "
                    "AS wanted (wanted_oid, place) JOIN pg_type ON oid = wanted_oid ORDER BY place",
                    [[column.type_code for column in described]],
                ).fetchall()
        except psycopg.ProgrammingError as error:
            raise ModelRefused(first_line(error)) from error
        return [
            (column.name, _plain_kind(kind, family)) for column, (kind, family) in zip(described, kinds, strict=True)
        ]


def _in_our_type(name: str, kind: str, wanted: ColumnType | None) -> str:
    """A column of a table as the models take it; "" when it is so already."""
    if wanted is ColumnType.UUID and kind != "uuid":
        # By way of text, which has no blanks at its end.
        return f"CAST(CAST({name} AS text) AS uuid) AS {name}"
    if wanted is ColumnType.TEXT and kind == "USER-DEFINED":
        return f"CAST({name} AS text) AS {name}"
    if wanted is ColumnType.BIGINT and kind == "numeric":
        return f"CAST({name} AS bigint) AS {name}"
    if wanted is ColumnType.TIMESTAMP and kind == "timestamp with time zone":
        # Adds nothing to UTC. A cast, or a comparison with our literals, would look at the rules of the session's zone
        # for every row: a sixth of what the nine models take.
        return f"{name} AT TIME ZONE INTERVAL '0' AS {name}"
    return ""


def _identifier(resource: Resource) -> str:
    """A column whose values are many: an identifier of the key, or at least the Leader's."""
    kinds = {column.name: column.type for column in resource.columns}
    return next((name for name in resource.key if kinds[name] is ColumnType.UUID), "LEADER_ID")


def _plain_kind(kind: str, family: str | bytes) -> str:
    """A type that is not the server's own is USER-DEFINED, as the information schema calls it."""
    is_base = family in {"b", b"b"}
    return kind if is_base and kind != "citext" else "USER-DEFINED"
