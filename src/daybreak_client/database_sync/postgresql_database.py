"""Sync into PostgreSQL 13 or newer."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors

from daybreak_client.database_sync.csv_files import chunks, csv_header
from daybreak_client.database_sync.database import (
    REPLACEMENT,
    STAGE,
    STATE_COLUMNS,
    STATE_TABLE,
    Applied,
    Database,
    WrongContent,
    columns_with_types,
    identifier,
    identifiers,
    types_by_table,
)
from daybreak_client.database_sync.merge import OPERATION, SEQUENCE, Merge
from daybreak_client.database_sync.postgresql_errors import described, errors_of_postgresql, key_violations
from daybreak_client.errors import DatabaseFailed, WrongUse
from daybreak_client.folder import LockWait
from daybreak_client.tables import BIGINT, BOOLEAN, DATE, QUOTED_KINDS, TEXT, TIMESTAMP, UUID, Column, Table

_TYPES = {
    UUID: "uuid", TEXT: "text", BIGINT: "bigint", BOOLEAN: "boolean", DATE: "date", TIMESTAMP: "timestamptz",
}  # fmt: skip
_ACCEPTED = {
    **{kind: {name} for kind, name in _TYPES.items()},
    TEXT: {"text", "character varying"},
    TIMESTAMP: {"timestamp with time zone", "timestamp(6) with time zone"},
}
_NUL = b"\0"
_CSV = "WITH (FORMAT csv, HEADER true)"
# A connection whose other end has vanished ends after two minutes, not after the two hours of the system. At the server
# it would hold the lock of the sync.
_KEEPALIVES: dict[str, Any] = {"keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 6}
# A statement that follows the wait for the lock sees what the other sync has committed, whatever the default isolation.
# Rows that a policy hides would be duplicates, so PostgreSQL must refuse to hide them.
_SETTINGS = "; SET LOCAL ".join(
    (
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "TimeZone = 'UTC'", "DateStyle = 'ISO'", "row_security = off",
        *(f"tcp_{name} = {value}" for name, value in _KEEPALIVES.items()),
    )
)  # fmt: skip
# Tables without primary key are in publications FOR ALL TABLES too, which need to identify rows.
_LACKS_IDENTITY = (
    "SELECT 1 FROM pg_class c WHERE c.oid = %s::regclass AND c.relreplident = 'd' AND pg_has_role(c.relowner, 'USAGE') "
    "AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"
)
_TRIGGERS = (
    "SELECT c.relname::text, string_agg(t.name, ', ' ORDER BY t.name) FROM (SELECT tgrelid AS id, tgname::text AS name "
    "FROM pg_trigger WHERE NOT tgisinternal UNION ALL SELECT ev_class, rulename FROM pg_rewrite) t "
    "JOIN pg_class c ON c.oid = t.id JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') GROUP BY 1"
)
_UNIQUE_COLUMNS = (
    "SELECT DISTINCT a.attname FROM pg_attribute a JOIN pg_index i ON i.indrelid = a.attrelid "
    "WHERE a.attrelid = %s::regclass AND i.indisunique AND NOT i.indisprimary AND (a.attnum = ANY (i.indkey) "
    "OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid "
    "AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum))"
)


class PostgreSQLDatabase(Database):
    """Tables in a schema of a PostgreSQL database. PostgreSQL cannot store NUL, which is replaced by U+FFFD."""

    placeholder = "%s"
    as_of_microseconds = "(extract(epoch FROM as_of) * 1000000)::bigint"
    composite = "ROW({})::text"
    row_id, row_id_type = "concat({0}.tableoid, {0}.ctid)", "text"
    temporary_schema = "pg_temp"
    types = _TYPES
    accepted = _ACCEPTED
    max_row_bytes: int | None = None

    def __init__(self, url: str, schema: str, *, read_only: bool, lock_wait: LockWait) -> None:
        """Connect. Raises DatabaseFailed, and WrongUse for a database that cannot store every character."""
        self._schema = schema
        self._settings = f"{_SETTINGS}; SET TRANSACTION READ ONLY" if read_only else _SETTINGS
        self._lock_wait = lock_wait
        self._triggers: dict[str, str] = {}
        self._url = url
        self._connection: psycopg.Connection = self._connect()
        encoding = self._connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            self.close()
            raise WrongUse(f"The database has the encoding {encoding}. Use one with the encoding UTF8.")

    def _connect(self) -> psycopg.Connection:
        with errors_of_postgresql():
            # Behind a pooler such as PgBouncer, each transaction may be in another session, which other clients use
            # too: no prepared statements.
            return psycopg.connect(
                self._url, autocommit=True, prepare_threshold=None, connect_timeout=30, client_encoding="utf8",
                **_KEEPALIVES,
            )  # fmt: skip

    def renew_connection(self) -> None:
        try:
            self._execute("SELECT 1")
        except DatabaseFailed:
            if not self._connection.closed:
                raise
            self._connection = self._connect()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            with self._in_transaction():
                self._lock_wait.acquire(self._lock, "Another sync of this database runs.")
                milliseconds = max(1, min(round(self._lock_wait.seconds * 1000), 2**31 - 1))
                self._execute(f"SET LOCAL lock_timeout = {milliseconds}")
                yield
        except psycopg.Error as error:
            raise DatabaseFailed(described(error)) from None

    def _lock(self) -> bool | None:
        """Exclude other syncs until the end of the transaction. Readers do not wait. Returns None while one runs."""
        lock = "SELECT pg_try_advisory_xact_lock(hashtext('daybreak sync'), hashtext(%s))"
        return self._rows(lock, [self._schema])[0][0] or None

    def create_tables(self, tables: Sequence[Table], *, without_key: Collection[str]) -> None:
        if not self._rows("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self._schema]):
            self._execute(f"CREATE SCHEMA {identifier(self._schema)}")
        found = self._columns()
        self._triggers = dict(self._rows(_TRIGGERS, [self._schema]))
        if STATE_TABLE not in found:
            self._execute(f"CREATE TABLE {self.qualified(STATE_TABLE)} ({STATE_COLUMNS})")
        for table in tables:
            name, keyless = self.qualified(table.name), table.name in without_key or not table.primary_key
            if table.name not in found:
                self._execute(f"CREATE TABLE {name} ({columns_with_types(table, _TYPES)})")
            for column in table.columns:
                if column.name not in found.get(table.name, {column.name}):
                    self._execute(f"ALTER TABLE {name} ADD COLUMN {identifier(column.name)} {_TYPES[column.kind]}")
            key = self._key_name(table)
            if table.name in without_key and key:
                # Columns of a dropped primary key stay NOT NULL.
                nullable = ", ".join(f"ALTER {identifier(each)} DROP NOT NULL" for each in table.primary_key)
                self._execute(f"ALTER TABLE {name} DROP CONSTRAINT {identifier(key)}")
                self._execute(f"ALTER TABLE {name} {nullable}")
            if (keyless or table.name in found) and self._rows(_LACKS_IDENTITY, [name]):
                self._execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")

    def additions(self, table: Table) -> str:
        triggers = self._triggers.get(table.name)
        return f"The table has triggers or rules of yours: {triggers}." if triggers else ""

    def load(self, table: Table, client_id: str, file: Path) -> int:
        with key_violations(table, self._key_name(table) or ""):
            loaded, replaced = self._copy(f"{self.qualified(table.name)} ({identifiers(table.column_names)})", file)
        if loaded != self.count(table, client_id):
            raise WrongContent(table.name, "the file contains rows of another account")
        return replaced

    def add_key(self, table: Table) -> None:
        if not table.primary_key or self._primary_key(table):
            return
        key = identifiers(table.primary_key)
        with key_violations(table, None):
            self._execute(f"ALTER TABLE {self.qualified(table.name)} ADD PRIMARY KEY ({key})")

    def stage(self, table: Table, client_id: str, files: Sequence[Path], *, full: bool) -> Applied:
        merge = Merge(self, table, client_id, full=full)
        self._execute(f"CREATE TEMP TABLE {merge.stage} ({merge.stage_columns}) ON COMMIT DROP")
        names = identifiers(table.column_names if full else (OPERATION, *table.column_names))
        replaced = 0
        for place, file in enumerate(files):
            self._execute(f"ALTER TABLE {merge.stage} ALTER {identifier(SEQUENCE)} SET DEFAULT {place}")
            replaced += self._copy(f"{merge.stage} ({names})", file)[1]
        self._execute(f"ANALYZE {merge.stage}")
        if not merge.keyed:
            # Rows are identified by their place, which changes when another session updates them.
            self._execute(f"LOCK TABLE {merge.target} IN SHARE ROW EXCLUSIVE MODE")
        deleted = merge.delete()
        return Applied(deleted.deleted, deleted.inserted, replaced)

    def apply(self, table: Table, client_id: str, staged: Applied, *, full: bool) -> Applied:
        merge = Merge(self, table, client_id, full=full)
        with key_violations(table, self._key_name(table) or ""):
            try:
                with self._connection.transaction():
                    merge.update()
            except errors.UniqueViolation:
                # Rows may exchange values of a unique index of the user, which PostgreSQL checks row by row.
                unique = {name for (name,) in self._rows(_UNIQUE_COLUMNS, [merge.target])}
                if not merge.keyed or not unique:
                    raise
                merge.update([name for name in table.column_names if name in unique], empty=True)
                merge.update()
            applied = merge.insert(staged)
        if table.name in self._triggers:
            merge.check()
        self._execute(f"DROP TABLE {merge.stage}")
        return applied

    def number(self, query: str, parameters: Sequence[object] = ()) -> int:
        cursor = self._execute(query, parameters)
        row = cursor.fetchone() if cursor.description else None
        return cursor.rowcount if row is None else int(row[0])

    def count_replaced(self, table: Table, client_id: str) -> int:
        texts = [identifier(column.name) for column in table.columns if column.kind == TEXT]
        counts = " + ".join(f"coalesce(length({name}) - length(replace({name}, %s, '')), 0)" for name in texts)
        return self.number(
            f'SELECT coalesce(sum({counts}), 0) FROM {self.qualified(table.name)} WHERE "LEADER_ID" = %s',
            [*[REPLACEMENT] * len(texts), client_id],
        )

    def contains(self, table: Table, client_id: str, file: Path) -> bool:
        with self._in_transaction():
            self._execute(f"CREATE TEMP TABLE {STAGE} ({columns_with_types(table, _TYPES)}) ON COMMIT DROP")
            self._copy(STAGE, file)
            sources = (self.qualified(table.name), STAGE)
            stored, published = (self._export(table, source, client_id, table.total_order) for source in sources)
        return stored == published

    def _export(self, table: Table, source: str, client_id: str, columns: Sequence[str]) -> str:
        digest = hashlib.sha256(csv_header(table.column_names))
        cells = ", ".join(_csv_cell(column) for column in table.columns)
        order = ", ".join(
            identifier(name) + (' COLLATE "C"' if table.kinds[name] == TEXT else "") + " NULLS FIRST"
            for name in columns
        )
        quoted = identifiers(column.name for column in table.columns if column.kind in QUOTED_KINDS)
        query = (
            f'COPY (SELECT {cells} FROM {source} WHERE "LEADER_ID" = %s ORDER BY {order}) '
            f"TO STDOUT WITH (FORMAT csv, FORCE_QUOTE ({quoted}))"
        )
        with (
            self._in_transaction(),
            self._connection.cursor() as cursor,
            cursor.copy(self._sql(query, [client_id]), [client_id]) as copy,
        ):
            for chunk in copy:
                digest.update(chunk)
        return digest.hexdigest()

    def _copy(self, target: str, file: Path) -> tuple[int, int]:
        """Copy a gzip CSV file. Returns the number of rows and of replaced characters."""
        replaced = 0
        with errors_of_postgresql(), self._connection.cursor() as cursor:
            with cursor.copy(f"COPY {target} FROM STDIN {_CSV}".encode()) as copy:
                for chunk in chunks(file):
                    found = chunk.count(_NUL)
                    replaced += found
                    copy.write(chunk.replace(_NUL, REPLACEMENT.encode()) if found else chunk)
            return cursor.rowcount, replaced

    def _sql(self, query: str, parameters: Sequence[object]) -> bytes:
        """Return SQL. With parameters, psycopg takes the percent signs of the schema's name for placeholders."""
        schema = f"{identifier(self._schema)}."
        return (query.replace(schema, schema.replace("%", "%%")) if parameters else query).encode()

    def qualified(self, table: str) -> str:
        return f"{identifier(self._schema)}.{identifier(table)}"

    def _columns(self) -> dict[str, dict[str, str]]:
        # A timestamp with fewer digits would round values. Text that is too long is an error.
        rows = self._rows(
            "SELECT c.relname, a.attname, format_type(a.atttypid, CASE a.atttypid WHEN 'timestamptz'::regtype "
            "THEN a.atttypmod END) FROM pg_attribute a "
            "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped",
            [self._schema],
        )
        return types_by_table(rows)

    def has_key(self, table: Table) -> bool:
        return self._key_name(table) is not None

    def _key_name(self, table: Table) -> str | None:
        """Return the name of the primary key that the sync has added, None without one."""
        name, columns = self._primary_key(table) or (None, [])
        return name if set(columns) == set(table.primary_key) else None

    def _primary_key(self, table: Table) -> tuple[str, Sequence[str]] | None:
        """Return the name and the columns of the primary key of a table, None without one."""
        rows = self._rows(
            "SELECT o.conname::text, array_agg(a.attname::text) FROM pg_constraint o JOIN pg_attribute a "
            "ON a.attrelid = o.conrelid AND a.attnum = ANY (o.conkey) "
            "WHERE o.contype = 'p' AND o.conrelid = %s::regclass GROUP BY o.conname",
            [self.qualified(table.name)],
        )
        return (str(rows[0][0]), rows[0][1]) if rows else None

    def _rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._in_transaction():
            return self._connection.execute(self._sql(query, parameters), parameters or None).fetchall()

    def _execute(self, query: str, parameters: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        with self._in_transaction():
            return self._connection.execute(self._sql(query, parameters), parameters or None)

    @contextmanager
    def _in_transaction(self) -> Iterator[None]:
        """Join the open transaction, or begin one with the settings that the statements rely on."""
        with errors_of_postgresql():
            if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                yield
                return
            with self._connection.transaction():
                self._connection.execute(self._settings.encode())
                yield


def _csv_cell(column: Column) -> str:
    """Return SQL for a cell as the files of the service contain it. COPY quotes and escapes it."""
    name = identifier(column.name)
    if column.kind == BOOLEAN:
        return f"CASE WHEN {name} THEN 'true' WHEN NOT {name} THEN 'false' END"
    if column.kind == TIMESTAMP:
        text = f'to_char({name}, \'YYYY-MM-DD"T"HH24:MI:SS.US"Z"\')'
        return f"CASE WHEN isfinite({name}) THEN {text} ELSE {name}::text END"
    return name
