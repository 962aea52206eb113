"""Identities of single sign-on, passkeys, and the last request of a dashboard session."""

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = "r0001"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create the tables and columns."""
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
    op.add_column("sessions", sa.Column("last_seen_at", _INSTANT))
    op.add_column("sessions", sa.Column("passkey_challenge", sa.Text))
