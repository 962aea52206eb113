"""Creation of the schema of this version in an empty database. Migrations change databases of earlier versions."""

from __future__ import annotations

import sqlalchemy as sa

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
