"""Networks that the requests of an API token must come from."""

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Existing tokens keep working from any address."""
    op.add_column("api_tokens", sa.Column("allowed_networks", sa.Text))
