"""Which state database a URL means, and how it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from daybreak.domain.errors import OperatorError
from daybreak.state.sqlite_state import SqliteState

if TYPE_CHECKING:
    from daybreak.state.postgresql_state import PostgresqlState

Database: TypeAlias = "SqliteState | PostgresqlState"

_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


def sqlite_path(url: str) -> Path | None:
    """The file of `sqlite:///relative/path` or `sqlite:////absolute/path`; None for another kind."""
    if not url.startswith("sqlite:"):
        return None
    # A file's name as it is: in a URL `#`, `?` and `%` would be other things.
    path = url.removeprefix("sqlite:///")
    if path in (url, "", "/"):
        raise OperatorError(
            f"state.url {url!r} names no file: write sqlite:///daybreak.db, four slashes for an absolute path."
        )
    return Path(path)


def postgresql_url(url: str) -> str:
    """The URL as PostgreSQL's own library reads it. Raises OperatorError for another kind."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _POSTGRESQL:
        raise OperatorError(f"state.url begins with {scheme!r}: it must be a sqlite:/// or a postgresql:// URL.")
    return f"postgresql://{rest}"


def shown_url(url: str) -> str:
    """The URL as messages name it: without a password, and without parameters, where one may stand too."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{hosts}{parts.path}"


def open_state(url: str, *, pool_size: int = 8, wait_seconds: float = 5.0) -> Database:
    """The State of `sqlite:///...` or `postgresql://...`. Nothing is connected to yet: a database
    that is away shows at the first use, as Unavailable. `pool_size` connections at most are kept to
    PostgreSQL by a process; `wait_seconds` is the longest wait for one answer, or for the lock of a
    SQLite file. Raises OperatorError for a bad URL."""
    path = sqlite_path(url)
    if path is not None:
        return SqliteState(path, wait_seconds=wait_seconds)
    # The driver is loaded by those who use it: it costs the command line a tenth of a second.
    import psycopg

    from daybreak.state.postgresql_state import PostgresqlState

    try:
        return PostgresqlState(postgresql_url(url), pool_size=pool_size, wait_seconds=wait_seconds)
    except psycopg.ProgrammingError as error:
        raise OperatorError(
            "state.url cannot be read as a PostgreSQL URL: postgresql://user:password@host:5432/name."
        ) from error
