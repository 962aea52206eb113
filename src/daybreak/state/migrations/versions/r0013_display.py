"""Time zone and number format of seats."""

import sqlalchemy as sa
from alembic import op

revision = "r0013"
down_revision = "r0012"


def upgrade() -> None:
    """Apply the changes."""
    op.add_column("seats", sa.Column("time_zone", sa.Text))
    op.add_column("seats", sa.Column("number_format", sa.Text))
