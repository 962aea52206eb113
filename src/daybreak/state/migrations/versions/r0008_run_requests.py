"""Runs that operators request in the dashboard. A builder takes them."""

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "run_requests",
        sa.Column("request_id", _KEY, primary_key=True),
        sa.Column("requested_at", _INSTANT, nullable=False),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("day", sa.Date),
        sa.Column("taken_at", _INSTANT),
    )
