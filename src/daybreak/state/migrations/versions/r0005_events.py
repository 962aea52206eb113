"""Events, webhooks, deliveries, choices of seats and password resets."""

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0004"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "outbox",
        sa.Column("event_id", _KEY, primary_key=True),
        sa.Column("type", _KEY, nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("client_id", _KEY),
        sa.Column("seat_id", _KEY),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("cursor", _KEY, nullable=False),
        sa.Column("completed_at", _INSTANT),
    )
    op.create_index("ix_outbox_completed_at", "outbox", ["completed_at"])
    op.create_index("ix_outbox_type", "outbox", ["type", "at"])
    op.create_table(
        "webhooks",
        sa.Column("endpoint_id", _KEY, primary_key=True),
        sa.Column("client_id", _KEY, sa.ForeignKey("accounts.client_id", ondelete="CASCADE"), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("sealed_secret", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("created_by", _KEY, nullable=False),
        sa.Column("created_by_email", sa.Text, nullable=False),
        sa.Column("previous_secret", sa.Text),
        sa.Column("previous_until", _INSTANT),
        sa.Column("disabled_at", _INSTANT),
        sa.Column("disabled_reason", sa.Text),
        sa.Column("failing_since", _INSTANT),
    )
    op.create_index("ix_webhooks_client_id", "webhooks", ["client_id"])
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", _KEY, primary_key=True),
        sa.Column("event_id", _KEY, sa.ForeignKey("outbox.event_id", ondelete="CASCADE"), nullable=False),
        sa.Column("message_id", _KEY, nullable=False),
        sa.Column("type", _KEY, nullable=False),
        sa.Column("channel", _KEY, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("client_id", _KEY),
        sa.Column("endpoint_id", _KEY, sa.ForeignKey("webhooks.endpoint_id", ondelete="CASCADE")),
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE")),
        sa.Column("state", _KEY, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("next_attempt_at", _INSTANT),
        sa.Column("finished_at", _INSTANT),
        sa.Column("status", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("ix_deliveries_event_id", "deliveries", ["event_id"])
    op.create_index("ix_deliveries_seat_id", "deliveries", ["seat_id"])
    op.create_index("ix_deliveries_due", "deliveries", ["channel", "next_attempt_at"])
    op.create_index("ix_deliveries_endpoint", "deliveries", ["endpoint_id", "created_at"])
    op.create_table(
        "delivery_attempts",
        sa.Column("delivery_id", _KEY, sa.ForeignKey("deliveries.delivery_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("status", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("milliseconds", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "notification_choices",
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("type", _KEY, primary_key=True),
        sa.Column("enabled", sa.Boolean, nullable=False),
    )
    op.create_table(
        "password_resets",
        sa.Column("seat_id", _KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("digest", _KEY, nullable=False, unique=True),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("until", _INSTANT, nullable=False),
    )
