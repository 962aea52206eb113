"""The newest row of each source table that grows all the time, compared with earlier runs.

Files of a platform or a copy that stands still are valid and look fresh. Only the age of the newest rows shows it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from daybreak.catalogue.models import as_of_literal, shipped_models
from daybreak.domain.run_report import NewestRow, RunReport
from daybreak.sources.reading import Reading

# Table, its instant, and the resources that read it.
_TABLES = (
    ("member_state_changes", "state_changed_at", {"member_state_changes"}),
    ("campaigns", "sent_at", {"campaigns"}),
    ("outbound_messages", "sent_at", {"campaigns", "outbound_message_type_usage"}),
    ("inbound_messages", "received_at", {"campaigns"}),
    ("link_hits", "hit_at", {"campaign_links"}),
)
# A week of daily runs contains a weekend.
_MIN_RUNS = 7
MAX_RUNS = 60
"""Number of earlier runs to compare with."""
_MIN_EXCESS = timedelta(hours=6)


def newest_rows(
    reading: Reading, engine: str, as_of: datetime, reports: Iterable[tuple[datetime, RunReport]]
) -> dict[str, NewestRow]:
    """Return the newest row of each table up to `as_of`, without empty tables and tables of own models. `reports` are
    the instants and reports of earlier runs.
    """
    earlier = [(instant, report.newest_rows or {}) for instant, report in reports]
    rows = {}
    for table, at in _read(reading, engine, as_of, shipped_models(reading.models)):
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
                f"{_duration(row.usual_seconds)} old. Check that the platform or its copy is up to date."
            )


def _exceeded(age: timedelta, ages: Sequence[float]) -> float | None:
    if len(ages) < _MIN_RUNS:
        return None
    usual = timedelta(seconds=max(ages))
    return usual.total_seconds() if age > max(2 * usual, usual + _MIN_EXCESS) else None


def _read(reading: Reading, engine: str, as_of: datetime, accounted: Collection[str]) -> Iterator[tuple[str, datetime]]:
    text_type, until = "STRING" if engine == "spark" else "VARCHAR", as_of_literal(as_of)
    for table, instant, resources in _TABLES:
        if resources.isdisjoint(accounted):
            continue
        sql = f"SELECT CAST(MAX({instant}) AS {text_type}) AS newest FROM {table} WHERE {instant} <= {until}"
        for (newest,) in reading.source_rows(f"The newest row of {table}", sql):
            # There is no row, or the newest one is of a time before year 1.
            with contextlib.suppress(ValueError):
                yield table, datetime.fromisoformat(str(newest)).replace(tzinfo=UTC)


def _duration(seconds: float) -> str:
    hours = round(seconds / 3600)
    return f"{hours // 24} days" if hours >= 48 else f"{max(hours, 1)} h"
