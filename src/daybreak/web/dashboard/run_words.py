"""A run in words and figures, for operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta

from daybreak.domain.snapshot import Snapshot
from daybreak.snapshots.freshness import expected_end
from daybreak.snapshots.report import count, resources_of
from daybreak.snapshots.schedule import publication_of
from daybreak.web.dashboard.presentation import instant, number, size, span, width


def building_view(run: Snapshot, now: datetime) -> dict[str, object]:
    """How far a run is that is under way: a bar, a line of words, and the end it expects."""
    told = run.progress
    share = told.get("share")
    done_share = float(share) if isinstance(share, int | float) else None
    words = [str(told.get("phase") or "starting")]
    if told.get("resource"):
        words.append(f"{told['resource']} ({told.get('resource_number')} of {told.get('resources')})")
    if "rows" in told:
        words.append(f"{number(count(told, 'rows'))} rows")
    if "bytes" in told:
        words.append(size(count(told, "bytes")))
    if done_share is not None:
        words.insert(0, f"{done_share:.0%}".replace("%", " %"))
    return {
        "as_of": run.as_of,
        "started_at": run.started_at,
        "expected_end": expected_end(run, now),
        "done_width": width(done_share if done_share is not None else 0.0, 1),
        "done_text": ", ".join(words),
    }


def state_of(run: Snapshot, now: datetime) -> str:
    """The run's state; `lapsed` when its builder fell silent."""
    return "lapsed" if run.lapsed(now) else run.state.value


def failure_of(run: Snapshot, now: datetime) -> str | None:
    """Why a run came to nothing; None when it did not."""
    if not run.lapsed(now):
        return run.failure
    return f"{run.builder} was last heard of at {instant(run.heartbeat_at)}. The next run begins anew."


def facts_of(run: Snapshot) -> list[tuple[str, str]]:
    """Names and texts of what is known about a run."""
    known = [
        ("For", "by hand" if run.day is None else f"the publication of {run.day.isoformat()}"),
        ("Started", instant(run.started_at)),
        ("Finished", instant(run.finished_at)),
        ("Took", span(took(run))),
        ("Published", instant(run.published_at)),
        ("Builder", run.builder or "\N{EN DASH}"),
    ]
    for name, label in (("files", "Files"), ("files_carried", "Unchanged, carried over"), ("leaders", "Leaders")):
        value = run.report.get(name)
        if isinstance(value, int):
            known.append((label, number(value)))
    stored = run.report.get("bytes")
    if isinstance(stored, int):
        known.append(("Stored", size(stored)))
    if run.accepted_reason:
        known.append(("Accepted because", run.accepted_reason))
    return known


def findings_of(run: Snapshot) -> list[str]:
    """What the guard found, a sentence each."""
    found = run.report.get("findings")
    if not isinstance(found, Sequence) or isinstance(found, str):
        return []
    return [str(entry.get("detail", entry)) if isinstance(entry, Mapping) else str(entry) for entry in found]


def summary_of(run: Snapshot) -> str:
    """The first finding, and how many more there are."""
    found = findings_of(run)
    if not found:
        return ""
    more = f" And {len(found) - 1} more." if len(found) > 1 else ""
    return found[0] + more


def took(run: Snapshot) -> timedelta | None:
    """How long a run took; None while it is under way."""
    return run.finished_at - run.started_at if run.finished_at is not None else None


def rows_of(run: Snapshot) -> int | None:
    """Rows over all resources; None when the report has none."""
    figures = resources_of(run.report)
    return sum(count(entry, "rows") for entry in figures.values()) if figures else None


def lateness(snapshot: Snapshot, publish_at: time) -> str:
    """How late a publication was: `on time`, `12 min late`, `by hand`."""
    if snapshot.day is None or snapshot.published_at is None:
        return "by hand"
    late = snapshot.published_at - publication_of(snapshot.day, publish_at)
    return "on time" if late < timedelta(minutes=1) else f"{span(late)} late"
