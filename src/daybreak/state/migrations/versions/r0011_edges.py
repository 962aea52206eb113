"""Changes since the first schema was recorded. Nothing has been released yet, so this revision may still grow."""

import sqlalchemy as sa
from alembic import op

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None


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
