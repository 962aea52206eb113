"""Directory runs, faults of tasks and files, revoked keys, signed statements, and bound password links."""

import sqlalchemy as sa
from alembic import op

revision = "r0011"
down_revision = "r0010"


_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Apply the changes, oldest first."""
    op.create_table(
        "directory_syncs",
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("attempted_at", _INSTANT, nullable=False),
        sa.Column("succeeded_at", _INSTANT),
        sa.Column("failing_since", _INSTANT),
        sa.Column("reason", sa.Text),
    )
    op.create_table(
        "task_faults",
        sa.Column("task", _KEY, primary_key=True),
        sa.Column("host", _KEY, primary_key=True),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("failed_at", _INSTANT, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
    )
    op.create_table(
        "revoked_keys",
        sa.Column("kid", _KEY, primary_key=True),
        sa.Column("revoked_at", _INSTANT, nullable=False),
    )
    op.create_table(
        "file_faults",
        sa.Column("snapshot_id", _KEY, primary_key=True),
        sa.Column("files", sa.BigInteger, nullable=False),
        sa.Column("since", _INSTANT, nullable=False),
        sa.Column("by_reading", sa.Boolean, nullable=False),
    )
    _add_statements()
    op.add_column("snapshots", sa.Column("columns", sa.Text))
    _bind_password_links()


def _add_statements() -> None:
    """Add signed statements, the trust file, and a counter of what makes statements that are not published obsolete."""
    op.create_table(
        "snapshot_statements",
        sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("chain_id", _KEY, nullable=False),
        sa.Column("erasures", sa.BigInteger, nullable=False),
        sa.Column("signed_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
        sa.Column("public_key", sa.Text, nullable=False),
        sa.Column("packs", sa.Text, nullable=False),
    )
    op.create_table(
        "statement_revisions",
        sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("client_id", _KEY, primary_key=True),
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("erasure_id", _KEY, nullable=False),
        sa.Column("public_key", sa.Text, nullable=False),
        sa.Column("pack", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
    )
    op.create_table(
        "trust_files",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("cas", sa.Text, nullable=False),
        sa.Column("recovery", sa.Text, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
    )
    op.create_table(
        "revoked_signers",
        sa.Column("public_key", _KEY, primary_key=True),
        sa.Column("revoked_at", _INSTANT, nullable=False),
    )
    op.create_table(
        "erasure_receipts",
        sa.Column("erasure_id", _KEY, primary_key=True),
        sa.Column("client_id", _KEY, primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO counters (name, value) VALUES ('erasures', 0)")


def _bind_password_links() -> None:
    """Bind links that set a password to their address and type. Stored links end: the address is not known."""
    op.execute(sa.text("ALTER TABLE seats RENAME COLUMN password_changed_at TO links_ended_at"))
    op.drop_table("password_resets")
    op.create_table(
        "password_resets",
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("type", _KEY, primary_key=True),
        sa.Column("digest", _KEY, nullable=False, unique=True),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("requested_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
    )
