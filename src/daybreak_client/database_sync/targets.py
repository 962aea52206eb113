"""URLs of databases: `duckdb:///exports.duckdb` and `postgresql://user@host/database`."""

import re
from pathlib import Path

from daybreak_client.database_sync.database import Database
from daybreak_client.errors import WrongUse
from daybreak_client.folder import NO_WAIT, LockWait, expanded

_EXAMPLES = "Use one such as duckdb:///exports.duckdb or postgresql://user@host/database."
_DUCKDB_PREFIX = "duckdb:///"
_MAX_NAME_BYTES = 63
_IN_MEMORY = ":memory:"
_POSTGRESQL_PREFIXES = ("postgresql://", "postgres://")
# An `@` or `/` in a password would end it, and its rest would be a host, which errors name.
_POSTGRESQL = re.compile(r"postgres(?:ql)?://(?:[^@/]*@)?[^@?]*(?:\?.*)?")
_USER_PASSWORD = re.compile(r"(?<=://)([^:/?#]*):[^/]*@")
_QUERY_PASSWORD = re.compile(r"([?&])(?:ssl)?password=[^&]*&?")
# The text may contain a password, so no message repeats it.
_NOT_A_URL = f"This is not the URL of a database. {_EXAMPLES} Percent-encode special characters in names and passwords."


def open_database(target: str, schema: str | None, *, read_only: bool, lock_wait: LockWait = NO_WAIT) -> Database:
    """Open a database by its URL. The caller closes it. With `read_only`, a missing DuckDB file is an empty database.

    Raises WrongUse for an invalid URL and for a missing driver, DatabaseFailed when the database is unavailable.
    """
    if target.startswith(_DUCKDB_PREFIX):
        return _open_duckdb(target, schema or "main", read_only=read_only, lock_wait=lock_wait)
    if _POSTGRESQL.fullmatch(target):
        return _open_postgresql(target, schema or "daybreak", read_only=read_only, lock_wait=lock_wait)
    raise WrongUse(_NOT_A_URL)


def place_of(target: str) -> str:
    """Return a URL without its password."""
    without = _USER_PASSWORD.sub(r"\1@", target, count=1)
    return _QUERY_PASSWORD.sub(r"\1", without).rstrip("?&")


def has_password(target: str) -> bool:
    """Return whether a URL of PostgreSQL contains a password, which other users of the machine can read."""
    return target.startswith(_POSTGRESQL_PREFIXES) and place_of(target) != target


def _open_duckdb(target: str, schema: str, *, read_only: bool, lock_wait: LockWait) -> Database:
    text = target.removeprefix(_DUCKDB_PREFIX)
    path = Path(text)
    if not path.name or "?" in target or text.startswith(_IN_MEMORY):
        raise WrongUse(f"{target!r} does not name a file. {_EXAMPLES}")
    try:
        from daybreak_client.database_sync.duckdb_database import DuckDBDatabase
    except ModuleNotFoundError:
        raise WrongUse("DuckDB is not installed. Run `pip install duckdb`.") from None
    return DuckDBDatabase(expanded(path), schema, read_only=read_only, lock_wait=lock_wait)


def _open_postgresql(target: str, schema: str, *, read_only: bool, lock_wait: LockWait) -> Database:
    try:
        from psycopg import ProgrammingError, conninfo

        from daybreak_client.database_sync.postgresql_database import PostgreSQLDatabase
    except ModuleNotFoundError:
        raise WrongUse("The driver psycopg is not installed. Run `pip install 'psycopg[binary]'`.") from None
    try:
        conninfo.conninfo_to_dict(target)
    except ProgrammingError:
        raise WrongUse(_NOT_A_URL) from None
    if len(schema.encode()) > _MAX_NAME_BYTES:
        raise WrongUse(f"The name of the schema has more than {_MAX_NAME_BYTES} bytes. PostgreSQL would shorten it.")
    return PostgreSQLDatabase(target, schema, read_only=read_only, lock_wait=lock_wait)
