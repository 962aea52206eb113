"""The newest row of each source table that grows all the time, compared with earlier runs.

Files of a platform or a copy that stands still are valid and look fresh. Only the age of the newest rows shows it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from daybreak.domain.display import format_duration
from daybreak.domain.run_report import NewestRow, RunReport

# A week of daily runs contains a weekend.
_MIN_RUNS = 7
MAX_RUNS = 60
"""Number of earlier runs to compare with."""
_MIN_EXCESS = timedelta(hours=6)


def newest_rows(
    newest: Mapping[str, datetime], as_of: datetime, reports: Iterable[tuple[datetime, RunReport]]
) -> dict[str, NewestRow]:
    """Return the newest row of each table, from its instant. `reports` are the instants and reports of earlier runs."""
    earlier = [(instant, report.newest_rows or {}) for instant, report in reports]
    rows = {}
    for table, at in newest.items():
        # Runs on a platform that stood still do not make that usual.
        ages = [
            (instant - found.at).total_seconds()
            for instant, tables in earlier
            if (found := tables.get(table)) is not None and found.usual_seconds is None
        ]
        rows[table] = NewestRow(at, _exceeded(as_of - at, ages))
    return rows


def stale_tables(report: RunReport) -> Iterator[str]:
    """Yield a sentence for each table whose newest row is unusually old."""
    for table, row in (report.newest_rows or {}).items():
        if row.usual_seconds is not None:
            yield (
                f"{table}: the newest row is of {row.at:%Y-%m-%d %H:%M} UTC. In earlier runs it was at most "
                f"{format_duration(row.usual_seconds)} old. Check that the platform or its copy is up to date."
            )


def _exceeded(age: timedelta, ages: Sequence[float]) -> float | None:
    if len(ages) < _MIN_RUNS:
        return None
    usual = timedelta(seconds=max(ages))
    return usual.total_seconds() if age > max(2 * usual, usual + _MIN_EXCESS) else None
