"""First schema, without the changes of later revisions.

A migration never changes, so it imports nothing from the schema module.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0010"
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
    op.execute("INSERT INTO counters (name, value) VALUES ('fence', 0), ('version', 0)")
    op.execute("INSERT INTO current_snapshot (slot) VALUES (1)")
    op.execute("INSERT INTO audit_retention (slot) VALUES (1)")


def _create_tables() -> None:  # noqa: PLR0915 - one statement per table or index
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
        sa.Column("last_seen_at", _INSTANT),
        sa.Column("passkey_challenge", sa.Text),
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
        sa.Column("serve_gzip_as", sa.Text),
        sa.Column("allowed_networks", sa.Text),
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
        sa.Column("version", sa.BigInteger),
        sa.Column("chain_id", _KEY),
        sa.Column("chain_reason", sa.Text),
        sa.Column("deltas_from", _KEY),
        sa.Column("deltas_kept", sa.Boolean, nullable=False, server_default=sa.false()),
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
        sa.Column("replaced_at", _INSTANT),
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
    op.create_table(
        "seat_identities",
        sa.Column("issuer", _KEY, primary_key=True),
        sa.Column("subject", _KEY, primary_key=True),
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False),
        sa.Column("bound_at", _INSTANT, nullable=False),
    )
    op.create_index("ix_seat_identities_seat_id", "seat_identities", ["seat_id"])
    op.create_table(
        "passkeys",
        sa.Column("credential_id", _KEY, primary_key=True),
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False),
        sa.Column("public_key", sa.Text, nullable=False),
        sa.Column("sign_count", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("last_used_at", _INSTANT),
    )
    op.create_index("ix_passkeys_seat_id", "passkeys", ["seat_id"])
    op.create_index("uq_snapshots_version", "snapshots", ["version"], unique=True)
    op.create_index("ix_snapshots_chain", "snapshots", ["chain_id", "version"])
    op.create_table(
        "snapshot_deltas",
        sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("client_id", _KEY, primary_key=True),
        sa.Column("resource", _KEY, primary_key=True),
        sa.Column("delta", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "account_chains",
        sa.Column("client_id", _KEY, primary_key=True),
        sa.Column("chain_id", _KEY, nullable=False),
        sa.Column("service_chain_id", _KEY, nullable=False),
        sa.Column("from_version", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("closed_at", _INSTANT, nullable=False),
    )
    op.create_table(
        "outbox",
        sa.Column("event_id", _KEY, primary_key=True),
        sa.Column("type", _KEY, nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("client_id", _KEY),
        sa.Column("seat_id", _KEY),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("cursor", _KEY, nullable=False),
        sa.Column("completed_at", _INSTANT),
    )
    op.create_index("ix_outbox_completed_at", "outbox", ["completed_at"])
    op.create_index("ix_outbox_type", "outbox", ["type", "at"])
    op.create_table(
        "webhooks",
        sa.Column("endpoint_id", _KEY, primary_key=True),
        sa.Column("client_id", _KEY, sa.ForeignKey("accounts.client_id", ondelete="CASCADE"), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("sealed_secret", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("created_by", _KEY, nullable=False),
        sa.Column("created_by_email", sa.Text, nullable=False),
        sa.Column("previous_secret", sa.Text),
        sa.Column("previous_until", _INSTANT),
        sa.Column("disabled_at", _INSTANT),
        sa.Column("disabled_reason", sa.Text),
        sa.Column("failing_since", _INSTANT),
    )
    op.create_index("ix_webhooks_client_id", "webhooks", ["client_id"])
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", _KEY, primary_key=True),
        sa.Column("event_id", _KEY, sa.ForeignKey("outbox.event_id", ondelete="CASCADE"), nullable=False),
        sa.Column("message_id", _KEY, nullable=False),
        sa.Column("type", _KEY, nullable=False),
        sa.Column("channel", _KEY, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("client_id", _KEY),
        sa.Column("endpoint_id", _KEY, sa.ForeignKey("webhooks.endpoint_id", ondelete="CASCADE")),
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE")),
        sa.Column("state", _KEY, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("next_attempt_at", _INSTANT),
        sa.Column("finished_at", _INSTANT),
        sa.Column("status", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("ix_deliveries_event_id", "deliveries", ["event_id"])
    op.create_index("ix_deliveries_seat_id", "deliveries", ["seat_id"])
    op.create_index("ix_deliveries_due", "deliveries", ["channel", "next_attempt_at"])
    op.create_index("ix_deliveries_endpoint", "deliveries", ["endpoint_id", "created_at"])
    op.create_table(
        "delivery_attempts",
        sa.Column("delivery_id", _KEY, sa.ForeignKey("deliveries.delivery_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("status", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("milliseconds", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "notification_choices",
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("type", _KEY, primary_key=True),
        sa.Column("enabled", sa.Boolean, nullable=False),
    )
    op.create_table(
        "password_resets",
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("digest", _KEY, nullable=False, unique=True),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("until", _INSTANT, nullable=False),
    )
    op.create_table(
        "erasures",
        sa.Column("erasure_id", _KEY, primary_key=True),
        sa.Column("member_sha256", _KEY, nullable=False),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("finished_at", _INSTANT),
        sa.Column("replaced", sa.Text, nullable=False),
        sa.Column("obsolete_keys", sa.Text, nullable=False),
    )
    op.create_index("ix_erasures_member_sha256", "erasures", ["member_sha256"])
    op.create_table(
        "run_requests",
        sa.Column("request_id", _KEY, primary_key=True),
        sa.Column("requested_at", _INSTANT, nullable=False),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("day", sa.Date),
        sa.Column("taken_at", _INSTANT),
    )
