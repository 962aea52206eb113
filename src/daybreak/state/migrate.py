"""Migration of a state database to the schema of this version. One node migrates, others wait."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from daybreak.domain.errors import OperatorError
from daybreak.state.database import Database, open_state, redacted_url, sqlite_path, transaction
from daybreak.state.errors import translated_errors
from daybreak.state.migrations import FIRST, HEAD
from daybreak.state.schema import (
    audit_events,
    audit_retention,
    counters,
    current_snapshot,
    deliveries,
    metadata,
    snapshot_deltas,
    snapshot_files,
    snapshot_leaders,
    snapshots,
)

# Arbitrary key of the PostgreSQL advisory lock that serializes migrations.
_ADVISORY_LOCK = 0x0DA7_B4EA
_WAIT_SECONDS = 120.0

# The audit trail is append-only for every user of the database, including this program. Only events before
# `audit_retention.keep_from` may be deleted.
_SQLITE_GUARDS = (
    """
    CREATE TRIGGER audit_events_unchanged BEFORE UPDATE ON audit_events
    BEGIN SELECT RAISE(ABORT, 'audit events are never changed'); END
    """,
    """
    CREATE TRIGGER audit_events_kept BEFORE DELETE ON audit_events
    WHEN NOT EXISTS (SELECT 1 FROM audit_retention WHERE OLD.at < keep_from)
    BEGIN SELECT RAISE(ABORT, 'audit events are kept'); END
    """,
)
_POSTGRESQL_GUARDS = (
    """
    CREATE FUNCTION audit_events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF EXISTS (SELECT 1 FROM audit_retention WHERE OLD.at < keep_from) THEN
                RETURN OLD;
            END IF;
            RAISE EXCEPTION 'audit events are kept' USING ERRCODE = 'restrict_violation';
        END IF;
        RAISE EXCEPTION 'audit events are never changed' USING ERRCODE = 'restrict_violation';
    END $$
    """,
    """
    CREATE TRIGGER audit_events_guard BEFORE UPDATE OR DELETE ON audit_events
    FOR EACH ROW EXECUTE FUNCTION audit_events_guard()
    """,
    """
    CREATE TRIGGER audit_events_never_emptied BEFORE TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION audit_events_guard()
    """,
)
_PARTIAL_INDEXES = {
    "uq_snapshots_day": "state <> 'failed' AND day IS NOT NULL",
    "ix_deliveries_failed": "state = 'failed'",
}


def require_current(state: Database, url: str) -> None:
    """Raise OperatorError unless the database has the schema of this version."""
    found = _revision(state)
    if found == HEAD:
        return
    named = _named(state, url)
    if found is None:
        raise OperatorError(
            f"{named} does not exist or is empty. Check state.url, or run `daybreakd migrate` to create it."
        )
    _require_known(found, named)
    raise OperatorError(f"{named} has schema {found}, but this version needs {HEAD}. Run `daybreakd migrate`.")


def _named(state: Database, url: str) -> str:
    return f"The state database {getattr(state, 'path', None) or redacted_url(url)}"


def _require_known(found: str, named: str) -> None:
    """Raise OperatorError unless this version can migrate a schema."""
    if found > HEAD:
        raise OperatorError(
            f"{named} has schema {found}, which is newer than {HEAD} of this version. Install the newer Daybreak."
        )
    if found < FIRST:
        raise OperatorError(
            f"{named} has schema {found}. This version migrates {FIRST} and later. Migrate it with an earlier Daybreak "
            "first, or use an empty state database."
        )


def _revision(state: Database) -> str | None:
    """Return the schema revision of the database, None if it is missing or empty."""
    path = getattr(state, "path", None)
    return None if path is not None and not path.exists() else state.read(lambda stores: _recorded(stores.connection))


def _recorded(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()


def migrate(url: str) -> str:
    """Migrate the database to the schema of this version, if necessary, and return the revision.

    If several nodes migrate at the same time, one does the work and the others wait. A SQLite file is created with
    its folder, mode 0600.
    """
    with closing(open_state(url)) as state:
        found = _revision(state)
        if found == HEAD:
            return HEAD
        if found is not None:
            _require_known(found, _named(state, url))
    # Loading Alembic takes 0.1 s, which an ordinary start need not spend.
    from alembic import command

    with translated_errors(), _connection(url) as connection:
        config = _alembic_config()
        config.attributes["connection"] = connection
        if _recorded(connection) is not None:
            command.upgrade(config, "head")
        else:
            create_schema(connection)
            command.stamp(config, "head")
    return HEAD


@contextmanager
def _connection(url: str) -> Iterator[sa.Connection]:
    """Open a connection with a transaction that excludes other migrations."""
    path = sqlite_path(url)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    with transaction(url, _WAIT_SECONDS) as connection:
        if path is None:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
        yield connection


def _alembic_config() -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def create_schema(connection: sa.Connection) -> None:
    """Create the tables, the triggers of the audit trail, and the permanent rows."""
    dialect = connection.dialect.name
    # Options of the dialect in use only: each dialect takes 20 ms to load.
    for index in (*snapshots.indexes, *deliveries.indexes):
        if index.name in _PARTIAL_INDEXES:
            index.dialect_kwargs[f"{dialect}_where"] = sa.text(_PARTIAL_INDEXES[index.name])
    if dialect == "sqlite":
        audit_events.dialect_kwargs["sqlite_autoincrement"] = True
        for table in (snapshot_leaders, snapshot_files, snapshot_deltas):
            table.dialect_kwargs["sqlite_with_rowid"] = False
    metadata.create_all(connection, checkfirst=False)
    for guard in _SQLITE_GUARDS if dialect == "sqlite" else _POSTGRESQL_GUARDS:
        connection.exec_driver_sql(guard)
    connection.execute(
        sa.insert(counters), [{"name": name, "value": 0} for name in ("fence", "version", "signing_epoch")]
    )
    for table in (current_snapshot, audit_retention):
        connection.execute(sa.insert(table), {"slot": 1})
