"""Sync into a DuckDB file."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from daybreak_client.database_sync.csv_files import csv_header
from daybreak_client.database_sync.database import (
    STAGE,
    STATE_COLUMNS,
    STATE_TABLE,
    Applied,
    Database,
    KeyViolation,
    WrongContent,
    columns_with_types,
    identifier,
    identifiers,
)
from daybreak_client.database_sync.duckdb_catalog import Catalog
from daybreak_client.database_sync.duckdb_errors import constraint_violations, described, errors_of_duckdb
from daybreak_client.database_sync.merge import OPERATION, SEQUENCE, Merge, check_key
from daybreak_client.errors import DatabaseFailed, WrongUse
from daybreak_client.folder import LockWait
from daybreak_client.tables import BIGINT, BOOLEAN, DATE, QUOTED_KINDS, TEXT, TIMESTAMP, UUID, Column, Table

_TYPES = {
    UUID: "UUID", TEXT: "VARCHAR", BIGINT: "BIGINT", BOOLEAN: "BOOLEAN", DATE: "DATE", TIMESTAMP: "TIMESTAMPTZ",
}  # fmt: skip
_ACCEPTED = {**{kind: {name.lower()} for kind, name in _TYPES.items()}, TIMESTAMP: {"timestamp with time zone"}}
_TEMPORARY_STAGE = f"temp.main.{STAGE}"
_LINES_PER_FETCH = 20_000
# An empty cell is NULL and a quoted empty one is text. Values may contain any character, and be long.
_MAX_ROW_BYTES = 16 << 20
_CSV_OPTIONS = (
    "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', new_line = '\\n', nullstr = '', "
    f"allow_quoted_nulls = false, max_line_size = {_MAX_ROW_BYTES}, buffer_size = 67108864, compression = 'gzip'"
)
# https://duckdb.org/docs/stable/internals/storage
_MAGIC = slice(8, 12)
# New files have the format of DuckDB 1.4, so that it can read them. Other files keep their format.
_STORAGE_VERSION = "v1.4.0"


class DuckDBDatabase(Database):
    """Tables in a DuckDB file, which is created if necessary, with mode 0600."""

    placeholder = "?"
    as_of_microseconds = "epoch_us(as_of)"
    composite = "ROW({})"
    row_id, row_id_type = "{}.rowid", "BIGINT"
    temporary_schema = "temp.main"
    types = _TYPES
    accepted = _ACCEPTED
    max_row_bytes: int | None = _MAX_ROW_BYTES

    def __init__(self, path: Path, schema: str, *, read_only: bool, lock_wait: LockWait) -> None:
        """Open the file. With `read_only`, a missing one is an empty database in memory.

        Raises Busy while another process uses it, and WrongUse for another kind of file.
        """
        is_new = not path.exists()
        if path.is_file() and not _is_duckdb_file(path):
            raise WrongUse(f"{path} is not a DuckDB file. Use the path of a new file, or of a DuckDB file.")
        self._created: set[str] = set()
        self._additions: dict[str, str] = {}
        with errors_of_duckdb():
            self._connection: duckdb.DuckDBPyConnection = lock_wait.acquire(
                lambda: _connect(path, read_only=read_only, is_new=is_new), f"{path} is open in another process."
            )
        if is_new and not read_only:
            path.chmod(0o600)
        self._execute("SET TimeZone = 'UTC'")
        self._database = str(self._execute("SELECT current_database()").fetchone()[0])
        self._schema = self._existing_schema(schema)
        self._catalog = Catalog(self._rows, self._database, self._schema)

    def renew_connection(self) -> None:
        """Keep the file open."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._created.clear()
        # The file has one writing process, so the transaction excludes other syncs.
        self._define("BEGIN")
        try:
            yield
            self._execute("COMMIT")
        except BaseException as error:
            with suppress(DatabaseFailed):
                self._execute("ROLLBACK")
            self._catalog.forget()
            if isinstance(error, duckdb.Error):
                raise DatabaseFailed(described(error)) from None
            raise

    def create_tables(self, tables: Sequence[Table], *, without_key: Collection[str]) -> None:
        self._define(f"CREATE SCHEMA IF NOT EXISTS {identifier(self._database)}.{identifier(self._schema)}")
        self._define(f"CREATE TABLE IF NOT EXISTS {self.qualified(STATE_TABLE)} ({STATE_COLUMNS})")
        found = self._columns()
        for table in tables:
            name = self.qualified(table.name)
            if table.name not in found:
                self._define(f"CREATE TABLE {name} ({columns_with_types(table, _TYPES)})")
                self._created.add(table.name)
                continue
            self._additions[table.name] = ", ".join(self._catalog.additions(table))
            for column in table.columns:
                if column.name not in found[table.name]:
                    self._define(f"ALTER TABLE {name} ADD COLUMN {identifier(column.name)} {_TYPES[column.kind]}")
            if table.name in without_key and self.has_key(table):
                if self._additions[table.name]:
                    raise WrongUse(
                        f"Rows of {table.name} repeat its primary key, or a value of your own constraint or index. "
                        "DuckDB cannot drop the primary key without losing what you have added to the table: "
                        f"{self._additions[table.name]}. Remove that and run the sync again."
                    )
                self._copy_without_key(table)

    def additions(self, table: Table) -> str:
        added = self._additions.get(table.name)
        return f"You have added to the table: {added}." if added else ""

    def load(self, table: Table, client_id: str, file: Path) -> int:
        name, names = self.qualified(table.name), identifiers(table.column_names)
        with constraint_violations(table):
            loaded = self.number(f"INSERT INTO {name} ({names}) SELECT {names} FROM {_read_csv(table)}", [str(file)])
        if loaded != self.count(table, client_id):
            raise WrongContent(table.name, "the file contains rows of another account")
        return 0

    def add_key(self, table: Table) -> None:
        if not table.primary_key or self._catalog.primary_key(table):
            return
        if self._additions.get(table.name):
            # Without a copy of the table, the check for duplicates includes rows that this transaction has deleted.
            raise KeyViolation(table.name, f"to add one would lose what you have added: {self._additions[table.name]}")
        if table.name not in self._created:
            self._copy_without_key(table)
        # DuckDB checks rows that this transaction has inserted only when it commits.
        check_key(self, table, self.qualified(table.name))
        with constraint_violations(table):
            self._define(f"ALTER TABLE {self.qualified(table.name)} ADD PRIMARY KEY ({identifiers(table.primary_key)})")

    def stage(self, table: Table, client_id: str, files: Sequence[Path], *, full: bool) -> Applied:
        merge = Merge(self, table, client_id, full=full)
        self._execute(f"CREATE OR REPLACE TEMP TABLE {merge.stage} ({merge.stage_columns})")
        operation = () if full else (Column(OPERATION, TEXT),)
        content = replace(table, columns=(*operation, *table.columns))
        names = identifiers(content.column_names)
        for place, file in enumerate(files):
            self._execute(
                f"INSERT INTO {merge.stage} ({identifier(SEQUENCE)}, {names}) "
                f"SELECT {place}, {names} FROM {_read_csv(content)}",
                [str(file)],
            )
        with constraint_violations(table, None):
            return merge.delete()

    def apply(self, table: Table, client_id: str, staged: Applied, *, full: bool) -> Applied:
        merge = Merge(self, table, client_id, full=full)
        # An UPDATE of an indexed column takes very long, so rows where none differs are left out.
        expressions = self._catalog.indexed(table)
        indexed = [name for name in table.column_names if name in expressions]
        with constraint_violations(table, None if full else WrongContent):
            merge.update([name for name in table.column_names if name not in indexed])
            merge.update(indexed)
            applied = merge.insert(staged)
        self._execute(f"DROP TABLE {merge.stage}")
        return applied

    def count_replaced(self, table: Table, client_id: str) -> int:  # noqa: ARG002 - DuckDB stores every character
        return 0

    def contains(self, table: Table, client_id: str, file: Path) -> bool:
        self._execute(f"CREATE OR REPLACE TEMP TABLE {STAGE} AS FROM {_read_csv(table)}", [str(file)])
        sources = (self.qualified(table.name), _TEMPORARY_STAGE)
        stored, published = (self._export(table, source, client_id, table.total_order) for source in sources)
        self._execute(f"DROP TABLE {_TEMPORARY_STAGE}")
        return stored == published

    def _export(self, table: Table, source: str, client_id: str, columns: Sequence[str]) -> str:
        digest = hashlib.sha256(csv_header(table.column_names))
        cells = " || ',' || ".join(map(_csv_cell, table.columns))
        order = ", ".join(f"{identifier(name)} NULLS FIRST" for name in columns)
        lines = self._execute(
            f'SELECT {cells} || chr(10) FROM {source} WHERE "LEADER_ID" = ? ORDER BY {order}', [client_id]
        )
        while True:
            with errors_of_duckdb():
                fetched = lines.fetchmany(_LINES_PER_FETCH)
            if not fetched:
                return digest.hexdigest()
            digest.update("".join([line for (line,) in fetched]).encode())

    def _copy_without_key(self, table: Table) -> None:
        """Replace a table without additions by a copy of its rows without primary key, which DuckDB cannot drop."""
        self._define(f"CREATE TABLE {self.qualified(STAGE)} AS FROM {self.qualified(table.name)}")
        self._define(f"DROP TABLE {self.qualified(table.name)}")
        self._define(f"ALTER TABLE {self.qualified(STAGE)} RENAME TO {identifier(table.name)}")
        self._created.add(table.name)

    def _existing_schema(self, name: str) -> str:
        """Return the name of a schema as the catalog contains it. DuckDB ignores the case of names."""
        found = self._execute(
            "SELECT schema_name FROM duckdb_schemas() WHERE database_name = ? AND lower(schema_name) = lower(?)",
            [self._database, name],
        ).fetchone()
        return str(found[0]) if found else name

    def qualified(self, table: str) -> str:
        """Return a qualified name. Without the catalog, a schema with its name would be ambiguous."""
        return f"{identifier(self._database)}.{identifier(self._schema)}.{identifier(table)}"

    def _columns(self) -> dict[str, dict[str, str]]:
        return self._catalog.columns()

    def has_key(self, table: Table) -> bool:
        return self._catalog.has_key(table)

    def _define(self, statement: str) -> None:
        self._execute(statement)
        self._catalog.forget()

    def number(self, query: str, parameters: Sequence[object] = ()) -> int:
        return int(self._rows(query, parameters)[0][0])

    def _rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with errors_of_duckdb():
            return self._connection.execute(query, list(parameters)).fetchall()

    def _execute(self, query: str, parameters: Sequence[object] = ()) -> Any:
        with errors_of_duckdb():
            return self._connection.execute(query, list(parameters))


def _connect(path: Path, *, read_only: bool, is_new: bool) -> duckdb.DuckDBPyConnection | None:
    """Open a file, None while another process has locked it."""
    if is_new and read_only:
        return duckdb.connect()
    config: dict[str, Any] = {"storage_compatibility_version": _STORAGE_VERSION} if is_new else {}
    try:
        return duckdb.connect(str(path), read_only=read_only, config=config)
    except duckdb.IOException as error:
        if "Could not set lock on file" not in str(error):
            raise
        return None


def _is_duckdb_file(path: Path) -> bool:
    """Return whether a file has the header of a database. DuckDB would open JSON or CSV as a view in memory."""
    with path.open("rb") as content:
        return content.read(_MAGIC.stop)[_MAGIC] == b"DUCK"


def _csv_cell(column: Column) -> str:
    """Return SQL for a cell as the files of the service contain it."""
    name = identifier(column.name)
    if column.kind == TIMESTAMP:
        text = f"strftime(CAST({name} AS TIMESTAMP), '%Y-%m-%dT%H:%M:%S.%fZ')"
    else:
        text = f"CAST({name} AS VARCHAR)"
    if column.kind in QUOTED_KINDS:
        text = f"""'"' || replace({text}, '"', '""') || '"'"""
    return f"coalesce({text}, '')"


def _read_csv(table: Table) -> str:
    """Return SQL that reads a gzip CSV file with the columns of a table. The path is a parameter."""
    types = ", ".join(f"'{name}': '{_TYPES[kind]}'" for name, kind in table.kinds.items())
    return f"read_csv(?, {_CSV_OPTIONS}, columns = {{{types}}})"
