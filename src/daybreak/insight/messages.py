"""Message usage of an account by day, channel and type."""

from __future__ import annotations

from daybreak.domain.snapshot import ManifestEntry
from daybreak.insight.figures import UsageFigures
from daybreak.insight.published_tables import PublishedTables, check_rows

_USAGE = """
    SELECT
        CAST(DATE_DAY AS DATE), USAGE_CHANNEL, OUTBOUND_MESSAGE_TYPE,
        SUM(MESSAGE_COUNT), SUM(SEGMENT_COUNT), SUM(UNIT_COUNT), COUNT(*)
    FROM outbound_message_type_usage
    GROUP BY ALL
"""


def usage_figures(tables: PublishedTables, entry: ManifestEntry) -> UsageFigures:
    """Return the sums of the message segment usage file. Raises FileStoreError."""
    rows = tables.rows(_USAGE)
    check_rows(entry, sum(row[-1] for row in rows))
    return UsageFigures({(row[0], row[1], row[2]): _integers(*row[3:6]) for row in rows if row[0] is not None})


def _integers(messages: int, segments: int, units: int) -> tuple[int, int, int]:
    return int(messages), int(segments), int(units)
