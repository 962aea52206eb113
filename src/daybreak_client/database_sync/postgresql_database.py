"""Sync into PostgreSQL 13 or newer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors

from daybreak_client.database_sync.csv_files import chunks, csv_header
from daybreak_client.database_sync.database import (
    KEY_PROBLEM,
    REPLACEMENT,
    STATE_TABLE,
    Applied,
    KeyViolation,
    WrongContent,
)
from daybreak_client.database_sync.plan import AccountState, ResourceState
from daybreak_client.database_sync.sql import (
    OPERATION,
    STAGE,
    STATE_COLUMNS,
    account_columns,
    columns_with_types,
    delete_by_key,
    has_null,
    identifier,
    identifiers,
    lacking_columns,
    types_by_table,
    update_constants,
)
from daybreak_client.errors import Busy, DatabaseFailed, WrongUse, reason_of
from daybreak_client.lock_wait import LockWait
from daybreak_client.tables import BIGINT, BOOLEAN, DATE, QUOTED_KINDS, TEXT, TIMESTAMP, UUID, Column, Table

_TYPES = {
    UUID: "uuid", TEXT: "text", BIGINT: "bigint", BOOLEAN: "boolean", DATE: "date", TIMESTAMP: "timestamptz",
}  # fmt: skip
_ACCEPTED = {
    **{kind: {name} for kind, name in _TYPES.items()},
    TEXT: {"text", "character varying"},
    TIMESTAMP: {"timestamp with time zone"},
}
_NUL = b"\0"
# Classes of errors whose messages describe the connection, permissions, names and resources: connection, transaction
# state, authorization, catalog, schema, rollback, syntax and access, resources, state of objects, intervention, system.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_CLASSES_WITHOUT_VALUES = frozenset({"08", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58"})
# The function of PL/pgSQL's RAISE, with which a trigger of the user can put any text into an error.
_RAISE = "exec_stmt_raise"
# The context of a COPY continues with the value.
_PLACE = re.compile(r"COPY [^,\n]+, (line \d+(?:, column [A-Z][A-Z0-9_]*)?)")
_CSV = "WITH (FORMAT csv, HEADER true)"
_SETTINGS = "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'"


class PostgreSQLDatabase:
    """Tables in a schema of a PostgreSQL database. PostgreSQL cannot store NUL, which is replaced by U+FFFD."""

    def __init__(self, url: str, schema: str, *, read_only: bool, lock_wait: LockWait) -> None:
        """Connect. Raises DatabaseFailed, and WrongUse for a database that cannot store every character."""
        self._schema = schema
        self._settings = f"{_SETTINGS}; SET TRANSACTION READ ONLY" if read_only else _SETTINGS
        self._lock_wait = lock_wait
        with _errors():
            # Behind a pooler such as PgBouncer, each transaction may be in another session, which other clients use
            # too: no prepared statements.
            self._connection = psycopg.connect(
                url, autocommit=True, prepare_threshold=None, connect_timeout=30, client_encoding="utf8"
            )
        encoding = self._connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            self.close()
            raise WrongUse(f"The database has the encoding {encoding}. Use one with the encoding UTF8.")

    def close(self) -> None:
        self._connection.close()

    def state(self, client_id: str) -> AccountState | None:
        tables = self._columns()
        if STATE_TABLE not in tables:
            return None
        rows = self._rows(
            "SELECT resource, version, chain_id, snapshot_id, as_of, feed_etag, rows, content_sha256, "
            f"replaced_characters FROM {self._name(STATE_TABLE)} WHERE client_id = %s ORDER BY resource",
            [client_id],
        )
        if not rows:
            return None
        resources = {row[0]: ResourceState(row[0], *row[6:]) for row in rows if row[0] in tables}
        version, chain_id, snapshot_id, as_of, etag = rows[0][1:6]
        return AccountState(version, chain_id, snapshot_id, as_of.astimezone(UTC), etag, resources)

    def accounts(self) -> Sequence[str]:
        if STATE_TABLE not in self._columns():
            return ()
        rows = self._rows(f"SELECT DISTINCT client_id FROM {self._name(STATE_TABLE)} ORDER BY client_id")
        return [str(row[0]) for row in rows]

    def delete_account(self, client_id: str) -> None:
        for name, column in account_columns(self._columns()):
            self._execute(f"DELETE FROM {self._name(name)} WHERE {identifier(column)} = %s", [client_id])

    def missing_tables(self, tables: Sequence[Table]) -> Collection[str]:
        return lacking_columns(tables, self._columns(), _ACCEPTED)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            with self._in_transaction():
                self._lock_wait.acquire(self._lock, "Another sync of this database runs.")
                milliseconds = max(1, min(round(self._lock_wait.seconds * 1000), 2**31 - 1))
                self._execute(f"SET LOCAL lock_timeout = {milliseconds}")
                yield
        except psycopg.Error as error:
            raise _failure(error) from None

    def _lock(self) -> bool | None:
        """Exclude other syncs until the end of the transaction. Readers do not wait. Returns None while one runs."""
        lock = "SELECT pg_try_advisory_xact_lock(hashtext('daybreak sync'), hashtext(%s))"
        return self._rows(lock, [self._schema])[0][0] or None

    def create_tables(self, tables: Sequence[Table], *, without_key: Collection[str]) -> None:
        if not self._rows("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self._schema]):
            self._execute(f"CREATE SCHEMA {identifier(self._schema)}")
        found = self._columns()
        if STATE_TABLE not in found:
            self._execute(f"CREATE TABLE {self._name(STATE_TABLE)} ({STATE_COLUMNS})")
        for table in tables:
            name = self._name(table.name)
            if table.name not in found:
                self._execute(f"CREATE TABLE {name} ({columns_with_types(table, _TYPES)})")
                continue
            for column in table.columns:
                if column.name not in found[table.name]:
                    self._execute(f"ALTER TABLE {name} ADD COLUMN {identifier(column.name)} {_TYPES[column.kind]}")
            key = self._key_name(table)
            if table.name in without_key and key:
                # Columns of a dropped primary key stay NOT NULL.
                nullable = ", ".join(f"ALTER {identifier(each)} DROP NOT NULL" for each in table.primary_key)
                self._execute(f"ALTER TABLE {name} DROP CONSTRAINT {identifier(key)}")
                self._execute(f"ALTER TABLE {name} {nullable}")

    def load(self, table: Table, client_id: str, file: Path) -> int:
        name = self._name(table.name)
        self._execute(f'DELETE FROM {name} WHERE "LEADER_ID" = %s', [client_id])
        with _key_violations(table):
            loaded, replaced = self._copy(f"{name} ({identifiers(table.column_names)})", file)
        if loaded != self.count(table, client_id):
            raise WrongContent(table.name, "the file contains rows of another account")
        return replaced

    def add_key(self, table: Table) -> None:
        if not table.primary_key or self._key_name(table):
            return
        with _key_violations(table):
            self._execute(f"ALTER TABLE {self._name(table.name)} ADD PRIMARY KEY ({identifiers(table.primary_key)})")

    def apply(self, table: Table, client_id: str, delta: Path) -> Applied:
        name, names, operation = self._name(table.name), identifiers(table.column_names), identifier(OPERATION)
        self._execute(
            f"CREATE TEMP TABLE {STAGE} ({operation} text, {columns_with_types(table, _TYPES)}) ON COMMIT DROP"
        )
        _, replaced = self._copy(STAGE, delta)
        self._execute(f"ANALYZE {STAGE}")
        foreign = self._execute(
            f"SELECT FROM {STAGE} WHERE {operation} NOT IN ('D', 'I') "
            f"OR {operation} = 'I' AND \"LEADER_ID\" IS DISTINCT FROM %s LIMIT 1",
            [client_id],
        ).rowcount
        if foreign:
            raise WrongContent(table.name, "a delta contains rows of another account")
        # PostgreSQL joins by hash or index only with `=`. Keys with NULL are rare.
        nulls = has_null(table, "s")
        delete = delete_by_key(name, table, "%s", equality="=", condition=f"AND NOT {nulls}")
        deleted = self._execute(delete, [client_id]).rowcount
        if self._rows(f"SELECT FROM {STAGE} AS s WHERE {operation} = 'D' AND {nulls} LIMIT 1"):
            delete = delete_by_key(name, table, "%s", equality="IS NOT DISTINCT FROM", condition=f"AND {nulls}")
            deleted += self._execute(delete, [client_id]).rowcount
        with _key_violations(table):
            inserted = self._execute(
                f"INSERT INTO {name} ({names}) SELECT {names} FROM {STAGE} WHERE {operation} = 'I'"
            ).rowcount
        self._execute(f"DROP TABLE {STAGE}")
        return Applied(deleted, inserted, replaced)

    def set_constants(self, table: Table, client_id: str, constants: Mapping[str, str | None]) -> None:
        if not constants:
            return
        update = update_constants(self._name(table.name), table, constants, _TYPES, placeholder="%s")
        self._execute(update, [*constants.values(), client_id])

    def count(self, table: Table, client_id: str) -> int:
        rows = self._rows(f'SELECT count(*) FROM {self._name(table.name)} WHERE "LEADER_ID" = %s', [client_id])
        return int(rows[0][0])

    def count_replaced(self, table: Table, client_id: str) -> int:
        texts = [identifier(column.name) for column in table.columns if column.kind == TEXT]
        counts = " + ".join(f"coalesce(length({name}) - length(replace({name}, %s, '')), 0)" for name in texts)
        rows = self._rows(
            f'SELECT coalesce(sum({counts}), 0) FROM {self._name(table.name)} WHERE "LEADER_ID" = %s',
            [*[REPLACEMENT] * len(texts), client_id],
        )
        return int(rows[0][0])

    def save_state(self, client_id: str, state: AccountState, now: datetime) -> None:
        name = self._name(STATE_TABLE)
        self._execute(f"DELETE FROM {name} WHERE client_id = %s", [client_id])
        for each in state.resources.values():
            self._execute(
                f"INSERT INTO {name} VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [client_id, each.resource, state.chain_id, state.version, state.snapshot_id, state.as_of,
                 each.rows, each.content_sha256, each.replaced_characters, state.etag, now],
            )  # fmt: skip

    def save_etag(self, client_id: str, etag: str) -> None:
        self._execute(f"UPDATE {self._name(STATE_TABLE)} SET feed_etag = %s WHERE client_id = %s", [etag, client_id])

    def content_sha256(self, table: Table, client_id: str) -> str:
        order = table.key if self._key_name(table) else table.total_order
        return self._export(table, self._name(table.name), client_id, order)

    def contains(self, table: Table, client_id: str, file: Path) -> bool:
        with self._in_transaction():
            self._execute(f"CREATE TEMP TABLE {STAGE} ({columns_with_types(table, _TYPES)}) ON COMMIT DROP")
            self._copy(STAGE, file)
            sources = (self._name(table.name), STAGE)
            stored, published = (self._export(table, source, client_id, table.total_order) for source in sources)
        return stored == published

    def _export(self, table: Table, source: str, client_id: str, columns: Sequence[str]) -> str:
        """Return the digest of the rows of an account in `source`, ordered by `columns`."""
        digest = hashlib.sha256(csv_header(table.column_names))
        cells = ", ".join(_csv_cell(column) for column in table.columns)
        kinds = {column.name: column.kind for column in table.columns}
        order = ", ".join(
            identifier(name) + (' COLLATE "C"' if kinds[name] == TEXT else "") + " NULLS FIRST" for name in columns
        )
        quoted = identifiers(column.name for column in table.columns if column.kind in QUOTED_KINDS)
        query = (
            f'COPY (SELECT {cells} FROM {source} WHERE "LEADER_ID" = %s ORDER BY {order}) '
            f"TO STDOUT WITH (FORMAT csv, FORCE_QUOTE ({quoted}))"
        )
        with (
            self._in_transaction(),
            self._connection.cursor() as cursor,
            cursor.copy(_sql(query), [client_id]) as copy,
        ):
            for chunk in copy:
                digest.update(chunk)
        return digest.hexdigest()

    def _copy(self, target: str, file: Path) -> tuple[int, int]:
        """Copy a gzip CSV file. Returns the number of rows and of replaced characters."""
        replaced = 0
        with _errors(), self._connection.cursor() as cursor:
            with cursor.copy(_sql(f"COPY {target} FROM STDIN {_CSV}")) as copy:
                for chunk in chunks(file):
                    found = chunk.count(_NUL)
                    replaced += found
                    copy.write(chunk.replace(_NUL, REPLACEMENT.encode()) if found else chunk)
            return cursor.rowcount, replaced

    def _name(self, table: str) -> str:
        return f"{identifier(self._schema)}.{identifier(table)}"

    def _columns(self) -> dict[str, dict[str, str]]:
        """Return the types of the columns of all tables of the schema."""
        rows = self._rows(
            "SELECT c.relname, a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a "
            "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped",
            [self._schema],
        )
        return types_by_table(rows)

    def _key_name(self, table: Table) -> str | None:
        """Return the name of the primary key of a table, None without one."""
        rows = self._rows(
            "SELECT o.conname FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE o.contype = 'p' AND n.nspname = %s AND c.relname = %s",
            [self._schema, table.name],
        )
        return str(rows[0][0]) if rows else None

    def _rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._in_transaction():
            return self._connection.execute(_sql(query), parameters).fetchall()

    def _execute(self, query: str, parameters: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        with self._in_transaction():
            return self._connection.execute(_sql(query), parameters or None)

    @contextmanager
    def _in_transaction(self) -> Iterator[None]:
        """Join the open transaction, or begin one with the settings that the statements rely on."""
        with _errors():
            if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                yield
                return
            with self._connection.transaction():
                self._connection.execute(_sql(self._settings))
                yield


def _sql(text: str) -> bytes:
    """Return SQL that is built from checked names. Values are parameters."""
    return text.encode()


def _csv_cell(column: Column) -> str:
    """Return SQL for a cell as the files of the service contain it. COPY quotes and escapes it."""
    name = identifier(column.name)
    if column.kind == BOOLEAN:
        return f"CASE WHEN {name} THEN 'true' WHEN NOT {name} THEN 'false' END"
    if column.kind == TIMESTAMP:
        text = f'to_char({name}, \'YYYY-MM-DD"T"HH24:MI:SS.US"Z"\')'
        return f"CASE WHEN isfinite({name}) THEN {text} ELSE {name}::text END"
    return name


@contextmanager
def _errors() -> Iterator[None]:
    """Raise errors of PostgreSQL as DatabaseFailed."""
    try:
        yield
    except (errors.UniqueViolation, errors.NotNullViolation, errors.ProgramLimitExceeded):
        raise
    except errors.LockNotAvailable:
        raise Busy(
            "Another session has locked a table of the sync. Try again later, or wait longer with --lock-timeout."
        ) from None
    except psycopg.Error as error:
        raise _failure(error) from None


def _failure(error: psycopg.Error) -> DatabaseFailed:
    return DatabaseFailed(_described(error))


def _described(error: psycopg.Error) -> str:
    """Return what PostgreSQL reports, without values of rows, which most messages, details and contexts quote."""
    found = error.diag
    if error.sqlstate is None:
        # An error of the connection, which has no rows.
        return f"PostgreSQL: {reason_of(error)}"
    if error.sqlstate[:2] in _CLASSES_WITHOUT_VALUES and not found.context and found.message_primary:
        return f"PostgreSQL: {found.message_primary}"
    place = _PLACE.match(found.context or "")
    named = {"table": found.table_name, "column": found.column_name, "constraint": found.constraint_name}
    if found.source_function == _RAISE:
        named = {}
    places = [f"{kind} {name}" for kind, name in named.items() if name] + ([place[1]] if place else [])
    return ", ".join([f"PostgreSQL: {type(error).__name__}", *places])


@contextmanager
def _key_violations(table: Table) -> Iterator[None]:
    try:
        yield
    except errors.ProgramLimitExceeded as error:
        reason = "a value of its key is too long for an index of PostgreSQL"
        raise KeyViolation(table.name, reason, _described(error)) from None
    except (errors.UniqueViolation, errors.NotNullViolation) as error:
        raise KeyViolation(table.name, KEY_PROBLEM, _described(error)) from None
