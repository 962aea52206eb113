"""How the links of an API token send gzip files."""

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Existing tokens follow the setting."""
    op.add_column("api_tokens", sa.Column("serve_gzip_as", sa.Text))
