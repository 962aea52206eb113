"""How fresh the files are, said the same way on every page, in every answer and in the logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from datetime import time as time_of_day

from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.ports import SnapshotStore
from daybreak.snapshots.schedule import answers, last_due, next_publication, publication_of, run_of

# Publication itself takes a moment: until then nothing is called late.
_GRACE = timedelta(seconds=30)
_HISTORY = 20


def freshness(snapshots: SnapshotStore, now: datetime, publish_at: time_of_day) -> Freshness:
    """What is served, when the next files are expected, and whether a publication is late, with the reason."""
    return judge(snapshots.current(), snapshots.recent(_HISTORY), now, publish_at)


def judge(current: Snapshot | None, history: Sequence[Snapshot], now: datetime, publish_at: time_of_day) -> Freshness:
    """The same from values. `history` is newest first."""
    due_day = last_due(now, publish_at)
    due = publication_of(due_day, publish_at)
    run = run_of(due_day, history)
    coming = next_publication(now, publish_at)
    if now < due + _GRACE or answers(current, run, due):
        return Freshness(snapshot=current, next_expected_at=coming, late=False)
    running = next((run for run in history if run.state is SnapshotState.BUILDING), None)
    expected = (_expected_end(running, now) if running else None) or coming
    hour = f"{due:%H:%M} UTC on {due:%Y-%m-%d}"
    return Freshness(
        snapshot=current,
        next_expected_at=expected,
        late=True,
        reason=f"The files of {hour} are late: {_reason(run, running)}",
    )


def _reason(run: Snapshot | None, running: Snapshot | None) -> str:
    if running is not None:
        done = running.progress.get("share")
        return f"a run is under way ({done:.0%} done)." if isinstance(done, float) else "a run is under way."
    if run is None:
        return "no run has been made for them."
    if run.state is SnapshotState.HELD:
        return "the snapshot is held back until an operator has looked at it."
    if run.state is SnapshotState.FAILED:
        # What exactly failed is for the operator; consumers learn that it is known and tried again.
        return "the last run failed and is tried again."
    if run.state is SnapshotState.DISCARDED:
        return "an operator discarded the snapshot."
    return "the snapshot is complete and about to be published."


def _expected_end(running: Snapshot, now: datetime) -> datetime | None:
    """The end that the builder itself expects, while it is still to come."""
    text = running.progress.get("expected_end")
    if not isinstance(text, str):
        return None
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        return None
    return end if end.tzinfo is not None and end > now else None
