"""The clock of this process."""

from datetime import UTC, datetime


def now_utc() -> datetime:
    """Return the current UTC instant."""
    return datetime.now(UTC)
