"""Template variables of runs."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.run_report import DeltaFigures, RunDeltaFigures
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.proof.rules import reason_of
from daybreak.settings import Settings
from daybreak.snapshots.freshness import expected_end
from daybreak.snapshots.report import source_warnings
from daybreak.snapshots.schedule import publication_of
from daybreak.web.dashboard.formatting import (
    EN_DASH,
    format_changes,
    format_datetime,
    format_duration,
)
from daybreak.web.dashboard.operator.comparison import (
    compared_columns,
    compared_leaders,
    compared_resources,
    failed_checks,
    summary,
    title_of,
)

_PHASES = {each.name: f"writing {each.title}" for each in RESOURCES}
"""The phases of the export in words. The names of the others are words."""


def runs_version(runs: Sequence[Snapshot], now: datetime) -> str:
    """Return a digest of the runs and their states, which changes when a run begins or ends."""
    states = " ".join(f"{run.snapshot_id}={run.state_at(now)}" for run in runs)
    return hashlib.sha256(states.encode()).hexdigest()[:16]


def run_context(
    run: Snapshot, previous: Snapshot | None, names: Mapping[str, str], settings: Settings, now: datetime
) -> dict[str, object]:
    """Return the variables of one run's page.

    `previous` is the snapshot published before it. `names` are the names of accounts by client id.
    """
    report, guard = run.report, settings.guard
    return {
        "run": run,
        "failure": _failure(run, now),
        **progress_context([run], now),
        "previous": previous,
        "comparisons": [
            (title, column, rows)
            for title, column, rows in (
                ("Compared with the published snapshot", "Resource", compared_resources(run, previous, guard)),
                ("Leaders that lost rows", "Leader", compared_leaders(run, guard, names)),
                ("Columns with more NULLs", "Column", compared_columns(run, guard)),
            )
            if rows
        ],
        "failed_checks": failed_checks(run),
        "findings_not_listed": max(0, (report.findings_in_all or 0) - len(report.findings or ())),
        "reason_of": reason_of,
        "warnings": list(source_warnings(report)),
        "resources": [each for each in RESOURCES if each.name in report.by_resource],
        "changes_of": changes_of,
        "longest_seconds": max((figures.seconds for figures in report.by_resource.values()), default=0),
    }


def changes_of(deltas: DeltaFigures | RunDeltaFigures | None) -> str:
    """Return the changed rows, a dash without deltas."""
    if deltas is None or deltas.changed is None:
        return EN_DASH
    return format_changes(deltas.inserted or 0, deltas.deleted or 0)


def progress_context(runs: Sequence[Snapshot], now: datetime) -> dict[str, object]:
    """Return the variables about the progress of the runs that are under way."""
    building = [run for run in runs if run.is_running(now)]
    return {"building": building, "expected_end": expected_end, "title_of": title_of}


def lateness(snapshot: Snapshot, publish_at: time, first: datetime | None) -> str:
    """Return how late a snapshot was published: `on time`, `12 min late`, `manual run`.

    The `first` publication of the service is not late, because the service may have been installed after its hour.
    """
    if snapshot.day is None or snapshot.published_at is None:
        return "manual run"
    late = snapshot.published_at - publication_of(snapshot.day, publish_at)
    if late < timedelta(minutes=1):
        return "on time"
    return "first publication" if snapshot.published_at == first else f"{format_duration(late)} late"


def _failure(run: Snapshot, now: datetime) -> str | None:
    if not run.lapsed(now):
        return run.failure
    return (
        f"Last heartbeat of {run.builder}: {format_datetime(run.heartbeat_at)}. The next run starts from the beginning."
    )


def failure_summary(run: Snapshot, now: datetime) -> str:
    """Return why a run did not publish files, in one line: its failure and phase, or the first failed check."""
    if run.state is SnapshotState.HELD:
        return summary(run)
    failure = _failure(run, now)
    if not failure:
        return ""
    # The progress is that of the last heartbeat, which may be of an earlier phase.
    phase = run.report.last_phase if run.state is SnapshotState.FAILED else ""
    return failure.splitlines()[0] + (f" Failed while {_PHASES.get(phase, phase)}." if phase else "")
