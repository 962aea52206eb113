"""Versions of publications: 1 for the first one, and one more for each that follows."""

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and its counter, and number the publications of the past."""
    op.add_column("snapshots", sa.Column("version", sa.BigInteger))
    op.execute(
        "UPDATE snapshots SET version = numbered.version FROM ("
        "SELECT snapshot_id, row_number() OVER (ORDER BY published_at, fence) AS version "
        "FROM snapshots WHERE published_at IS NOT NULL"
        ") AS numbered WHERE numbered.snapshot_id = snapshots.snapshot_id"
    )
    op.execute("INSERT INTO counters (name, value) SELECT 'version', coalesce(max(version), 0) FROM snapshots")
    op.create_index("uq_snapshots_version", "snapshots", ["version"], unique=True)
