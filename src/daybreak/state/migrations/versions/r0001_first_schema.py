"""First schema: directory, credentials, audit trail, snapshots, nodes.

A migration never changes, so it imports nothing from the schema module.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INSTANT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")

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


def upgrade() -> None:
    """Create the tables, the triggers of the audit trail, and the permanent rows."""
    _create_tables()
    guards = _SQLITE_GUARDS if op.get_bind().dialect.name == "sqlite" else _POSTGRESQL_GUARDS
    for guard in guards:
        op.execute(guard)
    op.execute("INSERT INTO counters (name, value) VALUES ('fence', 0)")
    op.execute("INSERT INTO current_snapshot (slot) VALUES (1)")
    op.execute("INSERT INTO audit_retention (slot) VALUES (1)")


def _create_tables() -> None:
    op.create_table(
        "accounts",
        sa.Column("client_id", _KEY, primary_key=True),
        sa.Column("first_name", sa.Text, nullable=False),
        sa.Column("last_name", sa.Text, nullable=False),
        sa.Column("phone_number", sa.Text, nullable=False),
        sa.Column("phone_number_type", sa.Text, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("campaign_messages_monthly_threshold", sa.BigInteger, nullable=False),
        sa.Column("campaign_messages_monthly_used", sa.BigInteger, nullable=False),
        sa.Column("api_tokens_enabled", sa.Boolean, nullable=False),
        sa.Column("second_factor_required", sa.Boolean, nullable=False),
        sa.Column("billing_provided", sa.Boolean, nullable=False),
        sa.Column("billing_required", sa.Boolean, nullable=False),
        sa.Column("trial_length_days", sa.BigInteger, nullable=False),
        sa.Column("trial_started", sa.Boolean, nullable=False),
    )
    op.create_table(
        "seats",
        sa.Column("seat_id", _KEY, primary_key=True),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("email_folded", _KEY, nullable=False, unique=True),
        sa.Column("password_hash", sa.Text),
        sa.Column("password_changed_at", _INSTANT),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("operator", sa.Boolean, nullable=False),
        sa.Column("last_client_id", _KEY),
        sa.Column("sealed_seed", sa.Text),
        sa.Column("enrolled_at", _INSTANT),
        sa.Column("last_step", sa.BigInteger),
        sa.Column("pending_seed", sa.Text),
        sa.Column("pending_since", _INSTANT),
    )
    op.create_table(
        "recovery_codes",
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("code_hash", _KEY, primary_key=True),
        sa.Column("used_at", _INSTANT),
    )
    op.create_table(
        "grants",
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("client_id", _KEY, sa.ForeignKey("accounts.client_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("roles", sa.Text, nullable=False),
        sa.Column("data_export", sa.Boolean, nullable=False),
        sa.Column("async_rest_api", sa.Boolean, nullable=False),
    )
    op.create_index("ix_grants_client_id", "grants", ["client_id"])
    op.create_table(
        "sessions",
        sa.Column("sid", _KEY, primary_key=True),
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
        sa.Column("amr", sa.Text, nullable=False),
        sa.Column("awaiting_second_factor", sa.Boolean, nullable=False),
        sa.Column("device_id", _KEY),
        sa.Column("ended_at", _INSTANT),
        sa.Column("end_reason", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reauthenticated_at", _INSTANT),
    )
    op.create_index("ix_sessions_seat_id", "sessions", ["seat_id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_index("ix_sessions_ended_at", "sessions", ["ended_at"])
    op.create_table(
        "devices",
        sa.Column("device_id", _KEY, primary_key=True),
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False),
        sa.Column("user_agent", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("first_seen_at", _INSTANT, nullable=False),
        sa.Column("last_seen_at", _INSTANT, nullable=False),
    )
    op.create_index("ix_devices_seat_id", "devices", ["seat_id"])
    op.create_index("ix_devices_last_seen_at", "devices", ["last_seen_at"])
    op.create_table(
        "api_tokens",
        sa.Column("token_id", _KEY, primary_key=True),
        sa.Column("digest", _KEY, nullable=False, unique=True),
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False),
        sa.Column("client_id", _KEY, sa.ForeignKey("accounts.client_id", ondelete="CASCADE"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("last_four", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT),
        sa.Column("last_used_at", _INSTANT),
        sa.Column("revoked_at", _INSTANT),
        sa.Column("revoke_reason", sa.Text),
        sa.Column("created_by_email", sa.Text, nullable=False),
    )
    op.create_index("ix_api_tokens_seat_id", "api_tokens", ["seat_id"])
    op.create_index("ix_api_tokens_client_id", "api_tokens", ["client_id"])
    op.create_table(
        "throttle",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("window_seconds", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hits", sa.Text, nullable=False),
        sa.Column("over_at", _INSTANT, nullable=False),
    )
    op.create_index("ix_throttle_over_at", "throttle", ["over_at"])
    op.create_table(
        "audit_events",
        sa.Column("event_id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("seat_id", _KEY),
        sa.Column("client_id", _KEY),
        sa.Column("subject", sa.Text),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("user_agent", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_events_at", "audit_events", ["at"])
    op.create_index("ix_audit_events_client", "audit_events", ["client_id", "event_id"])
    op.create_index("ix_audit_events_seat", "audit_events", ["seat_id", "event_id"])
    op.create_table(
        "audit_retention",
        sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("keep_from", _INSTANT),
    )
    op.create_table(
        "counters",
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column("snapshot_id", _KEY, primary_key=True),
        sa.Column("fence", sa.BigInteger, nullable=False, unique=True),
        sa.Column("state", _KEY, nullable=False),
        sa.Column("day", sa.Date),
        sa.Column("as_of", _INSTANT, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("finished_at", _INSTANT),
        sa.Column("published_at", _INSTANT),
        sa.Column("failure", sa.Text),
        sa.Column("builder", sa.Text, nullable=False),
        sa.Column("heartbeat_at", _INSTANT),
        sa.Column("lease_until", _INSTANT),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("report", sa.Text, nullable=False),
        sa.Column("accepted_reason", sa.Text),
        sa.Column("files_stand", sa.Boolean, nullable=False),
    )
    one_a_day = sa.text("state <> 'failed' AND day IS NOT NULL")
    op.create_index(
        "uq_snapshots_day", "snapshots", ["day"], unique=True, sqlite_where=one_a_day, postgresql_where=one_a_day
    )
    op.create_table(
        "snapshot_leaders",
        sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("client_id", _KEY, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "snapshot_files",
        sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("resource", _KEY, primary_key=True),
        sa.Column("client_id", _KEY, primary_key=True),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("formats", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "current_snapshot",
        sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("snapshot_id", _KEY, sa.ForeignKey("snapshots.snapshot_id")),
        sa.Column("moved_at", _INSTANT),
    )
    op.create_table(
        "nodes",
        sa.Column("node_id", _KEY, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("seen_at", _INSTANT, nullable=False),
        sa.Column("roles", sa.Text, nullable=False),
    )
    op.create_index("ix_nodes_seen_at", "nodes", ["seen_at"])
