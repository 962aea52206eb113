"""One run, from its claim to a complete snapshot.

A run claims its day, deletes the files of dead runs, opens one consistent reading, checks the source and the disk
space, exports nine resources, checks references, makes the files durable, reads them back and runs the guard. A failed
run leaves published files unchanged: its own files are deleted, and it is recorded as failed with the reason.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from itertools import count

import structlog
from msgspec import structs

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import DaybreakError, FileStoreError, OperatorError, ReuseFailed, RunFenced, Unavailable
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.events import failed_event, held_event
from daybreak.snapshots.lease import Lease
from daybreak.snapshots.progress import Progress
from daybreak.snapshots.publish import publish_signed, publish_within
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import STOPPED, publication_of
from daybreak.snapshots.snapshot_run import SnapshotRun
from daybreak.state.stores import Stores

_log = structlog.get_logger("daybreak.snapshots")
_MAX_RETRY_SECONDS = 60.0


def run_manually(context: RunContext, *, as_of: datetime | None = None, full: bool = False) -> Snapshot:
    """Build a snapshot now and publish it when it is complete. Return it, published or held.

    `full` writes every file, without reuse. Raises OperatorError for an `as_of` in the future or before the published
    snapshot, and the error of the last attempt.
    """
    context.state.read(lambda stores: stores.nodes.require_clock(context.clock))
    if as_of is not None:
        _check_instant(context, as_of)

    def begin() -> Snapshot:
        now = context.clock()
        snapshot = _new_snapshot(context, now, as_of or now, None)
        return context.state.write(
            lambda stores: stores.snapshots.begin_manual(snapshot, now, context.timings.lease_seconds)
        )

    done = _attempts(context, begin, full=full)
    assert done is not None  # another builder can only have the day of a daily run
    return done


def run_day(context: RunContext, day: date) -> Snapshot | None:
    """Claim a day and build its snapshot. Publish it if its hour has passed. Return None if another builder has the
    day. Raises the error of the last attempt.
    """

    def begin() -> Snapshot | None:
        now = context.clock()
        snapshot = _new_snapshot(context, now, now, day)
        return context.state.write(
            lambda stores: stores.snapshots.claim_day(snapshot, now, context.timings.lease_seconds)
        )

    return _attempts(context, begin, full=False)


def _check_instant(context: RunContext, as_of: datetime) -> None:
    """Check that an instant is not before the published snapshot, and not in the future: a published snapshot of a
    future instant would block later publications. Raises OperatorError.
    """
    if as_of > context.clock():
        raise OperatorError(f"{as_of:%Y-%m-%d %H:%M:%S} UTC is in the future. Use a past instant.")
    published = context.state.read(lambda stores: stores.snapshots.current())
    if published is not None and published.as_of > as_of:
        raise OperatorError(
            f"The published snapshot is as of {published.as_of:%Y-%m-%d %H:%M:%S} UTC: one as of "
            f"{as_of:%Y-%m-%d %H:%M:%S} UTC would not be published. Use a later instant."
        )


def _new_snapshot(context: RunContext, now: datetime, as_of: datetime, day: date | None) -> Snapshot:
    return Snapshot(
        snapshot_id=context.new_id(),
        state=SnapshotState.BUILDING,
        as_of=as_of,
        started_at=now,
        day=day,
        builder=context.builder,
    )


def _attempts(context: RunContext, begin: Callable[[], Snapshot | None], *, full: bool) -> Snapshot | None:
    """Retry after transient errors. Each attempt is a separate run, with a new claim and a new id."""
    timings = context.timings
    for attempt in count(1):
        try:
            snapshot = begin()
            is_last = attempt >= timings.attempts
            return None if snapshot is None else _attempt(context, snapshot, full=full, is_last=is_last)
        except DaybreakError as error:
            if not error.transient or attempt >= timings.attempts or context.stop.is_set():
                raise
            full = full or isinstance(error, ReuseFailed)
            seconds = min(timings.retry_seconds * 2.0 ** (attempt - 1), _MAX_RETRY_SECONDS)
            _log.warning("run.tried_again", code=error.code, reason=error.message, seconds=seconds)
            context.stop.wait(seconds)
    raise AssertionError("count() does not end")


def _attempt(context: RunContext, snapshot: Snapshot, *, full: bool, is_last: bool) -> Snapshot:
    """Run from claim to complete or held. Raises the error that ended the run, after removing its files.

    `is_last`: a transient error is not followed by another attempt.
    """
    published = context.state.read(lambda stores: stores.snapshots.current())
    expected = RunReport() if published is None else published.report
    progress = Progress(RESOURCE_NAMES, expected, context.clock, context.ticks)
    day = snapshot.day.isoformat() if snapshot.day is not None else None
    _log.info("run.started", snapshot_id=snapshot.snapshot_id, day=day, as_of=snapshot.as_of.isoformat())
    with Lease(context, snapshot, progress.read) as lease:
        snapshot_run = SnapshotRun(context, snapshot, lease, progress, published, full=full)
        try:
            state, report = snapshot_run.build()
        except BaseException as error:
            # A builder that takes over a run deletes its files. The takeover is reported, not the missing files.
            taken_over = isinstance(error, FileStoreError | ReuseFailed) and not lease.is_held()
            reason = RunFenced("The run was taken over by another builder.") if taken_over else error
            _fail(context, snapshot, snapshot_run, reason, is_last=is_last)
            if reason is error:
                raise
            raise reason from error

        due = state is SnapshotState.COMPLETE and _is_due(context, snapshot)

        def end() -> Snapshot:
            return lease.write(lambda stores: _finish(context, stores, snapshot, state, report, publish=due))

        if due:
            done = publish_signed(context.state, context.store, context.settings, snapshot, context.clock(), end)
        else:
            done = end()
    _log.info(f"run.{done.state}", snapshot_id=done.snapshot_id, seconds=report.seconds, rows=report.rows)
    _trace(context, done, report)
    return done


def _finish(
    context: RunContext, stores: Stores, snapshot: Snapshot, state: SnapshotState, report: RunReport, *, publish: bool
) -> Snapshot:
    """End a run, and publish it in the same transaction."""
    now = context.clock()
    stores.snapshots.finish(snapshot.snapshot_id, snapshot.fence, state, now, report=report)
    if state is SnapshotState.HELD:
        stores.outbox.add(held_event(snapshot, report, now))
    if publish:
        publish_within(stores, snapshot.snapshot_id, now, fence=snapshot.fence)
    return stores.snapshots.get(snapshot.snapshot_id) or replace(snapshot, state=state)


def _is_due(context: RunContext, snapshot: Snapshot) -> bool:
    """Return whether a run's hour of publication has passed. That of a manual run always has."""
    publish_at = context.settings.snapshot.publish_at
    return snapshot.day is None or publication_of(snapshot.day, publish_at) <= context.clock()


def _fail(
    context: RunContext, snapshot: Snapshot, snapshot_run: SnapshotRun, error: BaseException, *, is_last: bool
) -> None:
    """Delete the run's files and record the failure. Errors of the disk and the database are ignored, so that they do
    not replace the original error: the next run deletes the files, and the lease expires.
    """
    with contextlib.suppress(FileStoreError, Unavailable):
        snapshot_run.discard()
    if isinstance(error, RunFenced):
        _log.warning("run.fenced", snapshot_id=snapshot.snapshot_id, reason=error.message)
        return
    if isinstance(error, DaybreakError):
        code, reason = error.code, error.message
    else:
        code, reason = "run_failed", f"The run ended with {type(error).__name__}. See the log."
    _log.error("run.failed", snapshot_id=snapshot.snapshot_id, code=code, reason=reason)
    now = context.clock()
    report = structs.replace(snapshot_run.report(), code=code)
    # A run that was stopped with its process starts again with the next one.
    is_transient = isinstance(error, DaybreakError) and error.transient
    is_terminal = isinstance(error, Exception) and code != STOPPED and (is_last or not is_transient)

    def write(stores: Stores) -> None:
        stores.snapshots.finish(
            snapshot.snapshot_id, snapshot.fence, SnapshotState.FAILED, now, report=report, failure=reason
        )
        if is_terminal:
            stores.outbox.add(failed_event(snapshot, code, reason, now))

    with contextlib.suppress(Unavailable, RunFenced):
        context.state.write(write)
    _trace(context, replace(snapshot, state=SnapshotState.FAILED), report)


def _trace(context: RunContext, run: Snapshot, report: RunReport) -> None:
    if context.tracing is not None:
        context.tracing.add_run(run, report, context.clock())
