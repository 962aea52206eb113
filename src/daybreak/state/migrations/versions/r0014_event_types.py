"""Event types of webhooks."""

import sqlalchemy as sa
from alembic import op

revision = "r0014"
down_revision = "r0013"


def upgrade() -> None:
    """Apply the changes."""
    op.add_column("webhooks", sa.Column("event_types", sa.Text))
