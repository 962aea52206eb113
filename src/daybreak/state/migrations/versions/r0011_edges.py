"""Changes since the first schema was recorded. Nothing has been released yet, so this revision may still grow."""

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the changes, oldest first."""
