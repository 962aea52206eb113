"""The clock of this process."""

from datetime import UTC, datetime, timedelta

MAX_DIFFERENCE = timedelta(minutes=10)
"""Clocks of two builders differ by less. A lease that was renewed further ahead is from before the clock was set back,
and would last as long as that step: it has lapsed.
"""


def now_utc() -> datetime:
    """Return the current UTC instant."""
    return datetime.now(UTC)
