"""Tables of the state database. Tests compare them with migrated databases of earlier versions.

Features of a single database, such as partial indexes, are in `migrate.py`. Declared here, they would load that
database's part of SQLAlchemy in every process.
"""

import sqlalchemy as sa

from daybreak.domain.delta import ResourceDelta
from daybreak.domain.erasure import ReplacedFiles
from daybreak.domain.run_report import RunProgress, RunReport
from daybreak.state.columns import KEY, ROW_NUMBER, Instant, Json, JsonOf, Strings

metadata = sa.MetaData()

# --- Directory -----------------------------------------------------------------------------------

accounts = sa.Table(
    "accounts",
    metadata,
    sa.Column("client_id", KEY, primary_key=True),
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

seats = sa.Table(
    "seats",
    metadata,
    sa.Column("seat_id", KEY, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("email_folded", KEY, nullable=False, unique=True),
    sa.Column("password_hash", sa.Text),
    sa.Column("links_ended_at", Instant),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("operator", sa.Boolean, nullable=False),
    sa.Column("last_client_id", KEY),
    # Second factor. Seeds are encrypted with a key that is outside the database.
    sa.Column("sealed_seed", sa.Text),
    sa.Column("enrolled_at", Instant),
    sa.Column("last_step", sa.BigInteger),
    sa.Column("pending_seed", sa.Text),
    sa.Column("pending_since", Instant),
    sa.Column("time_zone", sa.Text),
    sa.Column("number_format", sa.Text),
)

# Seats of single sign-on: the subject of an identity provider, and the seat that it signs in.
seat_identities = sa.Table(
    "seat_identities",
    metadata,
    sa.Column("issuer", KEY, primary_key=True),
    sa.Column("subject", KEY, primary_key=True),
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("bound_at", Instant, nullable=False),
)

# Passkeys of seats. Identifier and public key are base64url text.
passkeys = sa.Table(
    "passkeys",
    metadata,
    sa.Column("credential_id", KEY, primary_key=True),
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("public_key", sa.Text, nullable=False),
    sa.Column("sign_count", sa.BigInteger, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("last_used_at", Instant),
)

recovery_codes = sa.Table(
    "recovery_codes",
    metadata,
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("code_hash", KEY, primary_key=True),
    sa.Column("used_at", Instant),
)

grants = sa.Table(
    "grants",
    metadata,
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("client_id", KEY, sa.ForeignKey("accounts.client_id", ondelete="CASCADE"), primary_key=True, index=True),
    sa.Column("roles", Strings, nullable=False),
    sa.Column("data_export", sa.Boolean, nullable=False),
    sa.Column("async_rest_api", sa.Boolean, nullable=False),
)

# --- Credentials ---------------------------------------------------------------------------------

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("sid", KEY, primary_key=True),
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False, index=True),
    sa.Column("amr", Strings, nullable=False),
    sa.Column("awaiting_second_factor", sa.Boolean, nullable=False),
    sa.Column("device_id", KEY),
    sa.Column("ended_at", Instant, index=True),
    sa.Column("end_reason", sa.Text),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("reauthenticated_at", Instant),
    # Last request of a dashboard session, for the idle limit.
    sa.Column("last_seen_at", Instant),
    # Challenge that the browser's passkey must sign, single use: `<expiry in seconds since 1970>.<hex>`.
    sa.Column("passkey_challenge", sa.Text),
)

devices = sa.Table(
    "devices",
    metadata,
    sa.Column("device_id", KEY, primary_key=True),
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("user_agent", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("first_seen_at", Instant, nullable=False),
    sa.Column("last_seen_at", Instant, nullable=False, index=True),
)

api_tokens = sa.Table(
    "api_tokens",
    metadata,
    sa.Column("token_id", KEY, primary_key=True),
    sa.Column("digest", KEY, nullable=False, unique=True),
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("client_id", KEY, sa.ForeignKey("accounts.client_id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("last_four", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant),
    sa.Column("last_used_at", Instant),
    sa.Column("revoked_at", Instant),
    sa.Column("revoke_reason", sa.Text),
    sa.Column("created_by_email", sa.Text, nullable=False),
    # NULL: the setting files.serve_gzip_as.
    sa.Column("serve_gzip_as", sa.Text),
    # NULL: requests may come from any address.
    sa.Column("allowed_networks", Strings),
)

throttle = sa.Table(
    "throttle",
    metadata,
    sa.Column("key", KEY, primary_key=True),
    sa.Column("window_seconds", sa.BigInteger, primary_key=True, autoincrement=False),
    # [[microseconds since 1970, attempts], ...], oldest first.
    sa.Column("hits", Json, nullable=False),
    sa.Column("over_at", Instant, nullable=False, index=True),
)

# --- Audit trail ---------------------------------------------------------------------------------

audit_events = sa.Table(
    "audit_events",
    metadata,
    sa.Column("event_id", ROW_NUMBER, primary_key=True, autoincrement=True),
    sa.Column("at", Instant, nullable=False, index=True),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("result", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("seat_id", KEY),
    sa.Column("client_id", KEY),
    sa.Column("subject", sa.Text),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("user_agent", sa.Text, nullable=False),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("details", Json, nullable=False),
    sa.Index("ix_audit_events_client", "client_id", "event_id"),
    sa.Index("ix_audit_events_seat", "seat_id", "event_id"),
)

# Events before `keep_from` may be deleted. Triggers refuse any other change (see `migrate.py`).
audit_retention = sa.Table(
    "audit_retention",
    metadata,
    sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("keep_from", Instant),
)

# --- Snapshots -----------------------------------------------------------------------------------

counters = sa.Table(
    "counters", metadata, sa.Column("name", KEY, primary_key=True), sa.Column("value", sa.BigInteger, nullable=False)
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("snapshot_id", KEY, primary_key=True),
    # Fencing token of the run. It is unique, and manifest rows refer to it.
    sa.Column("fence", sa.BigInteger, nullable=False, unique=True),
    sa.Column("state", KEY, nullable=False),
    sa.Column("day", sa.Date),
    sa.Column("as_of", Instant, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
    sa.Column("published_at", Instant),
    sa.Column("failure", sa.Text),
    sa.Column("builder", sa.Text, nullable=False),
    sa.Column("heartbeat_at", Instant),
    sa.Column("lease_until", Instant),
    sa.Column("progress", JsonOf(RunProgress), nullable=False),
    sa.Column("report", JsonOf(RunReport), nullable=False),
    sa.Column("columns", Json),  # by resource, NULL for runs of earlier versions
    sa.Column("accepted_reason", sa.Text),
    sa.Column("files_stand", sa.Boolean, nullable=False),
    sa.Column("version", sa.BigInteger),  # number of the publication, NULL for runs that were not published
    # The chain of publications: the id of its first snapshot, and on that one why an older chain ended.
    sa.Column("chain_id", KEY),
    sa.Column("chain_reason", sa.Text),
    # The snapshot that the deltas of this one begin from, NULL without deltas.
    sa.Column("deltas_from", KEY),
    sa.Column("deltas_kept", sa.Boolean, nullable=False, server_default=sa.false()),
    # At most one run per day that has not failed: `migrate.py` excludes failed runs from the index.
    sa.Index("uq_snapshots_day", "day", unique=True),
    sa.Index("uq_snapshots_version", "version", unique=True),
    sa.Index("ix_snapshots_chain", "chain_id", "version"),
)

snapshot_leaders = sa.Table(
    "snapshot_leaders",
    metadata,
    sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("client_id", KEY, primary_key=True),
)

snapshot_files = sa.Table(
    "snapshot_files",
    metadata,
    sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("resource", KEY, primary_key=True),
    sa.Column("client_id", KEY, primary_key=True),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("formats", Json, nullable=False),
    # When an erasure replaced the files.
    sa.Column("replaced_at", Instant),
)

# Erasures of Members. Finished ones are receipts.
erasures = sa.Table(
    "erasures",
    metadata,
    sa.Column("erasure_id", KEY, primary_key=True),
    sa.Column("member_sha256", KEY, nullable=False, index=True),
    sa.Column("requested_by", sa.Text, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
    sa.Column("replaced", JsonOf(tuple[ReplacedFiles, ...]), nullable=False),
    sa.Column("obsolete_keys", Strings, nullable=False),
)

# One row per Leader and resource whose rows changed. Without a resource: the Leader is new in this snapshot.
snapshot_deltas = sa.Table(
    "snapshot_deltas",
    metadata,
    sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("client_id", KEY, primary_key=True),
    sa.Column("resource", KEY, primary_key=True),
    sa.Column("delta", JsonOf(ResourceDelta), nullable=False),
)

# Chains of single accounts, which replace the chain of the service until that ends.
account_chains = sa.Table(
    "account_chains",
    metadata,
    sa.Column("client_id", KEY, primary_key=True),
    sa.Column("chain_id", KEY, nullable=False),
    sa.Column("service_chain_id", KEY, nullable=False),
    sa.Column("from_version", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("closed_at", Instant, nullable=False),
)

current_snapshot = sa.Table(
    "current_snapshot",
    metadata,
    sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("snapshot_id", KEY, sa.ForeignKey("snapshots.snapshot_id")),
    sa.Column("moved_at", Instant),
)

# --- Directory -----------------------------------------------------------------------------------

# One row: the latest synchronization of the directory with the platform.
directory_syncs = sa.Table(
    "directory_syncs", metadata, sa.Column("name", KEY, primary_key=True),
    sa.Column("attempted_at", Instant, nullable=False), sa.Column("succeeded_at", Instant),
    sa.Column("failing_since", Instant), sa.Column("reason", sa.Text),
)  # fmt: skip

# --- Events --------------------------------------------------------------------------------------

# Written in the transaction that causes the event. The deliverer adds deliveries and sets `completed_at`.
outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("event_id", KEY, primary_key=True),
    sa.Column("type", KEY, nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("client_id", KEY),
    sa.Column("seat_id", KEY),
    sa.Column("data", Json, nullable=False),
    # The last recipient that has a delivery.
    sa.Column("cursor", KEY, nullable=False),
    sa.Column("completed_at", Instant, index=True),
    sa.Index("ix_outbox_type", "type", "at"),
)

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("endpoint_id", KEY, primary_key=True),
    sa.Column("client_id", KEY, sa.ForeignKey("accounts.client_id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("url", sa.Text, nullable=False),
    # Encrypted with a key that is outside the database.
    sa.Column("sealed_secret", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("created_by", KEY, nullable=False),
    sa.Column("created_by_email", sa.Text, nullable=False),
    sa.Column("previous_secret", sa.Text),
    sa.Column("previous_until", Instant),
    sa.Column("disabled_at", Instant),
    sa.Column("disabled_reason", sa.Text),
    sa.Column("failing_since", Instant),
    # Separated by spaces; NULL for all.
    sa.Column("event_types", sa.Text),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("delivery_id", KEY, primary_key=True),
    sa.Column("event_id", KEY, sa.ForeignKey("outbox.event_id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("message_id", KEY, nullable=False),
    sa.Column("type", KEY, nullable=False),
    sa.Column("channel", KEY, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("client_id", KEY),
    sa.Column("endpoint_id", KEY, sa.ForeignKey("webhooks.endpoint_id", ondelete="CASCADE")),
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), index=True),
    sa.Column("state", KEY, nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("next_attempt_at", Instant),
    sa.Column("finished_at", Instant),
    sa.Column("status", sa.BigInteger),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Index("ix_deliveries_due", "channel", "next_attempt_at"),
    # Failed deliveries only: see the migration.
    sa.Index("ix_deliveries_failed", "finished_at"),
    sa.Index("ix_deliveries_endpoint", "endpoint_id", "created_at"),
)

delivery_attempts = sa.Table(
    "delivery_attempts",
    metadata,
    sa.Column("delivery_id", KEY, sa.ForeignKey("deliveries.delivery_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("status", sa.BigInteger),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("milliseconds", sa.BigInteger, nullable=False),
)

# Only what differs from the defaults, or once did.
notification_choices = sa.Table(
    "notification_choices",
    metadata,
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("type", KEY, primary_key=True),
    sa.Column("enabled", sa.Boolean, nullable=False),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", KEY, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("until", Instant, nullable=False),
)
