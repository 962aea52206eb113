"""How fresh the files are, said the same way on every page, in every answer and in the logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from datetime import time as time_of_day

from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.ports import SnapshotStore
from daybreak.snapshots.schedule import answers, last_due, next_publication, publication_of, run_of

# Publication itself takes a moment: until then nothing is called late.
_GRACE = timedelta(seconds=60)
_LOOK_BACK = 5


def freshness(snapshots: SnapshotStore, now: datetime, publish_at: time_of_day) -> Freshness:
    """What is served, when the next files are expected, and whether a publication is late, with the reason."""
    current, run = snapshots.current(), snapshots.of_day(last_due(now, publish_at))
    told = judge(current, [] if run is None else [run], now, publish_at)
    # Only lateness asks for more: a run by hand or for another day may be under way.
    return judge(current, snapshots.recent(_LOOK_BACK), now, publish_at) if told.late and run is None else told


def judge(current: Snapshot | None, history: Sequence[Snapshot], now: datetime, publish_at: time_of_day) -> Freshness:
    """The same from values. `history` is newest first."""
    due_day = last_due(now, publish_at)
    due = publication_of(due_day, publish_at)
    run = run_of(due_day, history)
    coming = next_publication(now, publish_at)
    if now <= due + _GRACE or answers(current, run, due):
        return Freshness(snapshot=current, next_expected_at=coming, late=False)
    running = next((run for run in history if run.state is SnapshotState.BUILDING), None)
    expected = (_expected_end(running, now) if running else None) or coming
    return Freshness(snapshot=current, next_expected_at=expected, late=True, reason=_reason(current, run, running))


def _reason(current: Snapshot | None, run: Snapshot | None, running: Snapshot | None) -> str:
    """Fit for an account's people: what exactly failed is for the operator, in the run and in the log."""
    if running is not None:
        done = running.progress.get("share")
        share = f" ({done:.0%} done)" if isinstance(done, float) else ""
        return f"Today's snapshot is still being made{share}."
    if run is None and current is None:
        return "The first snapshot has not been made yet."
    if run is None:
        return "Today's snapshot has not been started; it is made up for as soon as possible."
    if run.state is SnapshotState.HELD:
        return "Today's snapshot is held back until an operator has looked at it."
    if run.state is SnapshotState.FAILED:
        return "Making today's snapshot failed; it is tried again."
    if run.state is SnapshotState.DISCARDED:
        return "Today's snapshot was discarded by an operator."
    return "Today's snapshot is complete and about to be published."


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
