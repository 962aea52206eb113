"""Replication lag of a standby: files of a replica that stands still would be published as fresh."""

from __future__ import annotations

from datetime import datetime, timedelta

from daybreak.domain.errors import SourceUnavailable
from daybreak.settings.text_forms import duration_in_words
from daybreak.sources.postgresql.server_snapshot import Connection

# No row on a primary. A standby that is connected and has replayed all that it received is current, however old the
# last transaction of the primary is. Without a connection only the time of the last transaction is known.
_REPLAY = """
SELECT pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver),
       pg_last_xact_replay_timestamp()
WHERE pg_is_in_recovery()
"""


def replay_lag(connection: Connection, as_of: datetime) -> timedelta | None:
    """Return how far a standby is behind `as_of`, None for a primary. Raises SourceUnavailable when it is unknown."""
    row = connection.execute(_REPLAY).fetchone()
    if row is None:
        return None
    is_current: bool | None = row[0]
    replayed_at: datetime | None = row[1]
    if is_current:
        return timedelta(0)
    if replayed_at is None:
        raise SourceUnavailable(
            "The source is a standby that has replayed no transaction since its start, and is behind its primary or "
            "not connected to it. Check its replication, or set source.location to another server."
        )
    return max(as_of - replayed_at, timedelta(0))


def check_lag(lag: timedelta | None, max_lag: timedelta) -> None:
    """Raise SourceUnavailable when a standby is too far behind."""
    if lag is not None and lag > max_lag:
        raise SourceUnavailable(
            f"The source is a standby whose data is {duration_in_words(lag)} old. source.max_lag allows "
            f"{duration_in_words(max_lag)}. Check its replication (pg_is_wal_replay_paused, pg_stat_wal_receiver), or "
            "set source.location to another server."
        )
