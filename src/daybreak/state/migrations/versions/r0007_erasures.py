"""Erasures of Members, and when they replaced files."""

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create the table and add the column."""
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
    op.add_column("snapshot_files", sa.Column("replaced_at", _INSTANT))
