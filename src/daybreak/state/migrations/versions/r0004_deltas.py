"""Deltas between publications, and the chains that they form."""

import sqlalchemy as sa
from alembic import op

revision = "r0004"
down_revision = "r0003"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create the tables and columns. The published snapshot begins the first chain."""
    op.add_column("snapshots", sa.Column("chain_id", _KEY))
    op.add_column("snapshots", sa.Column("chain_reason", sa.Text))
    op.add_column("snapshots", sa.Column("deltas_from", _KEY))
    op.add_column("snapshots", sa.Column("deltas_kept", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute(
        "UPDATE snapshots SET chain_id = snapshot_id, chain_reason = 'first_publication' WHERE state = 'published'"
    )
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
