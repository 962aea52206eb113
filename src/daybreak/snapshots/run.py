"""One run: from a claim to a complete snapshot, or to nothing.

claim -> clean up after dead runs -> one consistent reading -> contract -> room on the disk -> nine resources ->
references -> seal -> read back -> guard -> complete or held. Whatever goes wrong in between, what was written is
discarded, the run is marked failed with its reason, and what is served stays as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from itertools import count

import structlog

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import CarryFailed, DaybreakError, FileStoreError, OperatorError, RunFenced, Unavailable
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.ports.state import Stores
from daybreak.snapshots.lease import Lease
from daybreak.snapshots.making import Making
from daybreak.snapshots.progress import Progress
from daybreak.snapshots.publish import publish_within
from daybreak.snapshots.schedule import publication_of
from daybreak.snapshots.workshop import Workshop

_log = structlog.get_logger("daybreak.snapshots")
_RETRY_MOST_SECONDS = 60.0


def run_by_hand(workshop: Workshop, *, as_of: datetime | None = None, full: bool = False) -> Snapshot:
    """Makes a snapshot now and publishes it as soon as it is complete; gives it as it then stands (published, or held
    by the guard). `full` writes every file anew. Raises OperatorError for an `as_of` that lies ahead or before what is
    served, else the error that ended the last attempt.
    """
    if as_of is not None:
        _check_instant(workshop, as_of)

    def begin() -> Snapshot:
        now = workshop.clock()
        snapshot = _fresh(workshop, now, as_of or now, None)
        return workshop.state.write(
            lambda stores: stores.snapshots.begin_manual(snapshot, now, workshop.plan.lease_seconds)
        )

    done = _attempts(workshop, begin, full=full)
    assert done is not None  # a run by hand needs no claim that another could hold
    return done


def run_day(workshop: Workshop, day: date) -> Snapshot | None:
    """Claims a day and makes its snapshot; publishes it when its hour has come already. None when another builder has
    the day. Raises the error that ended the last attempt.
    """

    def begin() -> Snapshot | None:
        now = workshop.clock()
        snapshot = _fresh(workshop, now, now, day)
        return workshop.state.write(
            lambda stores: stores.snapshots.claim_day(snapshot, now, workshop.plan.lease_seconds)
        )

    return _attempts(workshop, begin, full=False)


def _check_instant(workshop: Workshop, as_of: datetime) -> None:
    """What would be published of a time ahead would keep every true snapshot from being newer."""
    if as_of > workshop.clock():
        raise OperatorError(f"{as_of:%Y-%m-%d %H:%M:%S} UTC lies ahead: no snapshot can show that instant yet.")
    served = workshop.state.read(lambda stores: stores.snapshots.current())
    if served is not None and served.as_of > as_of:
        raise OperatorError(
            f"What is served shows {served.as_of:%Y-%m-%d %H:%M:%S} UTC already: a snapshot as of "
            f"{as_of:%Y-%m-%d %H:%M:%S} UTC would not be published."
        )


def _fresh(workshop: Workshop, now: datetime, as_of: datetime, day: date | None) -> Snapshot:
    return Snapshot(
        snapshot_id=workshop.new_id(),
        state=SnapshotState.BUILDING,
        as_of=as_of,
        started_at=now,
        day=day,
        builder=workshop.builder,
    )


def _attempts(workshop: Workshop, begin: Callable[[], Snapshot | None], *, full: bool) -> Snapshot | None:
    """Tries again after passing errors, each time as a run of its own: a new claim, a new id, nothing left over."""
    plan = workshop.plan
    for attempt in count(1):
        try:
            snapshot = begin()
            return None if snapshot is None else _attempt(workshop, snapshot, full=full)
        except DaybreakError as error:
            if not error.transient or attempt >= plan.attempts or workshop.stop.is_set():
                raise
            full = full or isinstance(error, CarryFailed)
            seconds = min(plan.retry_seconds * 2.0 ** (attempt - 1), _RETRY_MOST_SECONDS)
            _log.warning("run.tried_again", code=error.code, reason=error.message, seconds=seconds)
            workshop.stop.wait(seconds)
    raise AssertionError("count() does not end")


def _attempt(workshop: Workshop, snapshot: Snapshot, *, full: bool) -> Snapshot:
    """One run from claim to complete or held. Raises what ended it, with everything cleared away."""
    current = workshop.state.read(lambda stores: stores.snapshots.current())
    expected = {} if current is None else current.report
    progress = Progress(RESOURCE_NAMES, expected, workshop.clock, workshop.ticks)
    day = snapshot.day.isoformat() if snapshot.day is not None else None
    _log.info("run.started", snapshot_id=snapshot.snapshot_id, day=day, as_of=snapshot.as_of.isoformat())
    with Lease(
        workshop.state,
        snapshot,
        workshop.plan,
        clock=workshop.clock,
        told=progress.as_json,
        stop=workshop.stop,
    ) as lease:
        making = Making(workshop, snapshot, lease, progress, None if full else current)
        try:
            state, report = making.make()
        except BaseException as error:
            # Whoever took the run over has removed its files: that they are missing is not the reason to tell.
            taken = isinstance(error, FileStoreError | CarryFailed) and not lease.held()
            reason = RunFenced("The run was taken over by another builder.") if taken else error
            _give_up(workshop, snapshot, making, reason)
            if reason is error:
                raise
            raise reason from error
        done = lease.patiently(lambda stores: _finish(workshop, stores, snapshot, state, report))
    _log.info(f"run.{done.state}", snapshot_id=done.snapshot_id, seconds=report["seconds"], rows=report["rows"])
    return done


def _finish(
    workshop: Workshop, stores: Stores, snapshot: Snapshot, state: SnapshotState, report: Mapping[str, object]
) -> Snapshot:
    """Ends a run, and publishes it in the same transaction when its time has come: nothing can come in between."""
    now = workshop.clock()
    stores.snapshots.finish(snapshot.snapshot_id, snapshot.fence, state, now, report=report)
    due = snapshot.day is None or publication_of(snapshot.day, workshop.plan.publish_at) <= now
    if state is SnapshotState.COMPLETE and due:
        publish_within(stores, snapshot.snapshot_id, now, fence=snapshot.fence)
    return stores.snapshots.get(snapshot.snapshot_id) or replace(snapshot, state=state)


def _give_up(workshop: Workshop, snapshot: Snapshot, making: Making, error: BaseException) -> None:
    """Clears away what was written and says why the run failed. Nothing here may hide the error itself: what cannot be
    done now (disk or database away) is done by the next run's clean-up and by the end of the lease.
    """
    with contextlib.suppress(FileStoreError, Unavailable):
        making.discard()
    if isinstance(error, RunFenced):
        _log.warning("run.fenced", snapshot_id=snapshot.snapshot_id)
        return
    if isinstance(error, DaybreakError):
        code, reason = error.code, error.message
    else:
        code, reason = "run_failed", f"The run ended with {type(error).__name__}; the log says where."
    _log.error("run.failed", snapshot_id=snapshot.snapshot_id, code=code, reason=reason)
    now = workshop.clock()
    report = {**making.report(), "code": code}
    with contextlib.suppress(Unavailable, RunFenced):
        workshop.state.write(
            lambda stores: stores.snapshots.finish(
                snapshot.snapshot_id, snapshot.fence, SnapshotState.FAILED, now, report=report, failure=reason
            )
        )
