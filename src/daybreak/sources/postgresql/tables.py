"""The source tables on a PostgreSQL server: privileges, columns, sizes, and SQL that converts them to the catalogue's
types.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.source_tables import SOURCE_TABLES, SourceTable
from daybreak.domain.errors import SourceUnavailable
from daybreak.export.sql import identifier
from daybreak.sources.contract import Columns
from daybreak.sources.malformed import MalformedRows, count_conditions, find_malformed
from daybreak.sources.postgresql.server_snapshot import server_faults

# Tables are found by the role's search_path, which skips schemas that the role may not use. Row-level security that
# would hide rows is also reported, because files would silently lack these rows.
_MISSING_GRANTS = """
WITH required AS (
    SELECT name, column_name, to_regclass(name) AS found FROM unnest(%s::text[], %s::text[]) AS t (name, column_name)
)
SELECT format('GRANT SELECT ON %%s TO %%I;', found, current_user) FROM required
WHERE NOT has_any_column_privilege(found, 'SELECT')
UNION
SELECT format('GRANT SELECT (%%I) ON %%s TO %%I;', column_name, found, current_user) FROM required
JOIN pg_attribute AS a ON a.attrelid = found AND a.attname = column_name AND NOT a.attisdropped
WHERE has_any_column_privilege(found, 'SELECT') AND NOT has_column_privilege(found, a.attnum, 'SELECT')
UNION
SELECT format('ALTER ROLE %%I BYPASSRLS;', current_user) FROM required WHERE row_security_active(found)
UNION
SELECT format('GRANT USAGE ON SCHEMA %%I TO %%I;', n.nspname, current_user) FROM required
JOIN pg_class AS c ON c.relname = name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE found IS NULL AND n.nspname = ANY (string_to_array(translate(current_setting('search_path'), ' "', ''), ','))
  AND NOT has_schema_privilege(n.oid, 'USAGE')
ORDER BY 1
"""
# citext is compared by its name in the catalogue: `format_type` adds the schema if it is not in the search_path.
_TYPE_NAME = "CASE WHEN t.typtype = 'b' AND typname <> 'citext' THEN format_type(t.oid, NULL) ELSE 'USER-DEFINED' END"
_NONDETERMINISTIC = "(nondeterministic)"
# The columns that the role may read. A domain counts as its base type. A collation for which different texts can be
# equal is part of the name.
_COLUMNS = f"""
WITH RECURSIVE kinds AS (
    SELECT oid AS declared, oid AS kind, typtype, typbasetype FROM pg_type
    UNION ALL
    SELECT k.declared, t.oid, t.typtype, t.typbasetype FROM kinds AS k JOIN pg_type AS t ON t.oid = k.typbasetype
    WHERE k.typtype = 'd'
)
SELECT c.relname, a.attname,
    {_TYPE_NAME} || CASE WHEN l.collisdeterministic IS FALSE THEN '{_NONDETERMINISTIC}' ELSE '' END
FROM unnest(%s::text[]) AS name
JOIN pg_class AS c ON c.oid = to_regclass(name)
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN kinds AS k ON k.declared = a.atttypid AND k.typtype <> 'd'
JOIN pg_type AS t ON t.oid = k.kind
LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
WHERE has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY c.relname, a.attnum
"""
# Views read other tables, which may be much larger than what they return, and foreign tables have no size.
_SIZES = """
WITH RECURSIVE stored AS (
    SELECT c.oid FROM unnest(%s::text[]) AS name JOIN pg_class AS c ON c.oid = to_regclass(name)
    UNION SELECT inhrelid FROM stored JOIN pg_inherits ON inhparent = oid
)
SELECT coalesce(sum(pg_table_size(oid)), 0)::bigint FROM stored JOIN pg_class USING (oid) WHERE relkind IN ('r', 'm')
"""
# Tables that this transaction has locked, or that a name now refers to, and whose storage is not that of the snapshot.
# `pg_class` is read as of the snapshot, and the functions read the latest catalogue.
_REPLACED = """
SELECT DISTINCT found::regclass::text
FROM (
    SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'
    UNION SELECT to_regclass(name) FROM unnest(%s::text[]) AS name
) AS present (found)
LEFT JOIN pg_class AS c ON c.oid = found
WHERE found IS NOT NULL AND (c.oid IS NULL
    OR c.relkind IN ('r', 'm') AND c.relfilenode <> 0 AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(found))
ORDER BY 1
"""
TYPE_NAMES = (
    f"SELECT {_TYPE_NAME} FROM unnest(%s::oid[]) WITH ORDINALITY AS described (described_oid, place) "
    "JOIN pg_type AS t ON t.oid = described_oid ORDER BY place"
)
"""Query of the names of types, by oid and in order. A type that is not built in is USER-DEFINED."""
# What the server accepts as a UUID: hyphens after any four digits, and braces.
_GROUPS = "([0-9a-f]{4}-?){7}[0-9a-f]{4}"
_UUID = rf"^({_GROUPS}|\{{{_GROUPS}\}})$"
_TABLE_NAMES = [table.name for table in SOURCE_TABLES]


class ServerTables:
    """The source tables of a connection. Queries raise psycopg's errors; the caller converts them (`server_faults`)."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection
        self._columns: dict[str, Columns] | None = None
        self._refused: dict[str, Mapping[str, str]] = {}

    def missing_grants(self, required: Iterable[SourceTable]) -> list[str]:
        """Return the statements that let the role read every column of these tables."""
        read = [(table.name, column.name) for table in required for column in table.columns]
        tables, columns = map(list, zip(*read, strict=True))
        return [grant for (grant,) in self._connection.execute(_MISSING_GRANTS, [tables, columns]).fetchall()]

    def columns(self) -> dict[str, Columns]:
        """Return the columns of the source tables that exist, queried once."""
        if self._columns is None:
            found: dict[str, list[tuple[str, str]]] = {}
            with server_faults("The source"):
                rows = self._connection.execute(_COLUMNS, [_TABLE_NAMES]).fetchall()
            for table, column, kind in rows:
                found.setdefault(table, []).append((column, kind))
            self._columns = dict(found)
        return self._columns

    def refuse_replaced(self) -> None:
        """Raise SourceUnavailable that names the tables whose rows the snapshot no longer shows. `TRUNCATE`, changes
        that rewrite a table and exchanged tables are not isolated from snapshots. Locked tables cannot change.
        """
        replaced = [name for (name,) in self._connection.execute(_REPLACED, [_TABLE_NAMES]).fetchall()]
        if replaced:
            raise SourceUnavailable(
                "Tables of the source were truncated, rewritten or replaced when the run began, so that it would miss "
                f"their rows: {', '.join(replaced)}. Do this at another time than the run."
            )

    def size_bytes(self) -> int:
        """Return the size of the tables and their partitions. Views and foreign tables count as 0."""
        found = self._connection.execute(_SIZES, [_TABLE_NAMES]).fetchone()
        return int(found[0]) if found else 0

    def refuse_malformed(self, usable: Iterable[SourceTable]) -> list[MalformedRows]:
        """Count the malformed rows, and exclude them from what `with_typed_tables` returns from then on."""
        malformed = []
        for table in usable:
            types = {column.name: column.type for column in table.columns}
            conditions = {
                name: f"CAST({name} AS text) COLLATE \"C\" !~* '{_UUID}'"
                for name, kind in self.columns()[table.name]
                if types.get(name) is ColumnType.UUID and kind != "uuid"
            } | count_conditions(table)
            found = find_malformed(
                table, conditions, table.name, lambda sql: self._connection.execute(sql.encode()).fetchall()
            )
            if found:
                self._refused[table.name] = conditions
                malformed += found
        return malformed

    def with_typed_tables(self, usable: Iterable[SourceTable]) -> str:
        """Return a WITH clause, or "", that replaces `usable` tables with malformed rows, or with column types that
        differ from the catalogue's.

        The server cannot compare a text with a UUID, compares an enum only with its own values, and ignores case in a
        citext and in some collations. Instants have no time zone, as in other sources.
        """
        typed = []
        for table in usable:
            columns = self.columns()[table.name]
            types = {column.name: column.type for column in table.columns}
            casts = [_cast(name, kind, types.get(name)) for name, kind in columns]
            refused = self._refused.get(table.name, {})
            if refused or any(casts):
                values = ((cast or name, name) for cast, (name, _) in zip(casts, columns, strict=True))
                # The server may evaluate a cast before the condition that excludes the row.
                names = ", ".join(
                    f"CASE WHEN NOT coalesce({refused[name]}, false) THEN {value} END AS {name}"
                    if name in refused
                    else f"{value} AS {name}"
                    if value != name
                    else identifier(name)
                    for value, name in values
                )
                valid = " AND ".join(f"NOT coalesce({condition}, false)" for condition in refused.values())
                where = f" WHERE {valid}" if valid else ""
                typed.append(f"{table.name} AS NOT MATERIALIZED (SELECT {names} FROM {table.name}{where})")
        return f"WITH {', '.join(typed)} " if typed else ""


def _cast(name: str, kind: str, column_type: ColumnType | None) -> str:
    """Return SQL of a column in the catalogue's type, "" if it already has that type."""
    if column_type is ColumnType.UUID and kind != "uuid":
        # The cast to text removes trailing blanks.
        return f"CAST(CAST({name} AS text) AS uuid)"
    if column_type is ColumnType.TEXT:
        # LIKE and other operators of own models would see the padding of `character`.
        is_text = kind.removesuffix(_NONDETERMINISTIC) not in {"USER-DEFINED", "character"}
        text = name if is_text else f"CAST({name} AS text)"
        # The collation of the database itself is deterministic.
        value = f'{text} COLLATE "default"' if kind.endswith(_NONDETERMINISTIC) else text
        return "" if value == name else value
    if column_type is ColumnType.BIGINT and kind == "numeric":
        return f"CAST({name} AS bigint)"
    if column_type is ColumnType.TIMESTAMP and kind == "timestamp with time zone":
        # An offset of zero keeps UTC. A cast, or a comparison with the models' literals, would apply the rules of the
        # session's time zone to every row, which takes a sixth of the time of the nine models.
        return f"{name} AT TIME ZONE INTERVAL '0'"
    return ""
