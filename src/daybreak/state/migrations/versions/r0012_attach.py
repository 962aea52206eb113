"""Keyrings of nodes, an index of failed deliveries, and the name of the epoch of signatures."""

import sqlalchemy as sa
from alembic import op

revision = "r0012"
down_revision = "r0011"


def upgrade() -> None:
    """Apply the changes."""
    op.execute(sa.text("ALTER TABLE snapshot_statements RENAME COLUMN erasures TO epoch"))
    op.execute("UPDATE counters SET name = 'signing_epoch' WHERE name = 'erasures'")
    op.add_column("nodes", sa.Column("keyring", sa.Text))
    failed = sa.text("state = 'failed'")
    op.create_index("ix_deliveries_failed", "deliveries", ["finished_at"], sqlite_where=failed, postgresql_where=failed)
