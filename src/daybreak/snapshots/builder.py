"""The builder: a process that builds and publishes snapshots when they are due.

Any number of builders may run, on any number of nodes. The state database assigns each day to one of them, so that each
snapshot is published once.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from datetime import date, datetime, timedelta
from types import FrameType

import structlog

from daybreak.domain.errors import RunError, RunFenced, Unavailable
from daybreak.domain.snapshot import Snapshot
from daybreak.snapshots.lateness_log import watch_lateness
from daybreak.snapshots.publish import publish
from daybreak.snapshots.retention import clean, end_lapsed_runs
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.run_requests import take_request
from daybreak.snapshots.schedule import STOPPED, Publish, Wait, decide, last_due
from daybreak.state.nodes import Node
from daybreak.state.run_requests import RunRequest
from daybreak.state.stores import Stores
from daybreak.state.supervision import Supervisor

_log = structlog.get_logger("daybreak.snapshots")
_HISTORY_RUNS = 60
# Short, because the clock may step and other builders may die.
_MAX_WAIT_SECONDS = 5.0
_AFTER_ERROR_SECONDS = 5.0
_CLAIMED_BY_OTHER_SECONDS = 1.0
_CLEAN_INTERVAL_SECONDS = 3600.0
# Deleting millions of files takes minutes, and must not delay a publication.
_MIN_TIME_TO_CLEAN = timedelta(minutes=30)
_HEARTBEAT_SECONDS = 15.0


class Builder:
    """The loop of a builder. `run` returns when the context's `stop` is set."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._supervisor = Supervisor(context.state, context.builder, context.clock)
        # When each clean-up is due, in ticks.
        self._clean_up_at: dict[str, float] = {}

    def run(self) -> None:
        """Build and publish until stopped. Errors are recorded and retried, so that a builder survives them."""
        _log.info("builder.started", builder=self._context.builder)
        self._supervisor.run("builder", self._step_or_failed_run, self._context.stop)
        _log.info("builder.stopped", builder=self._context.builder)

    def _step_or_failed_run(self) -> float:
        """Perform a step. A failed run is in the state database, and is not a fault of the builder."""
        try:
            return self.step()
        except RunError as error:
            if error.code == STOPPED:
                return 0.0
            _log.error("builder.run_failed", code=error.code, reason=error.message)
            return _AFTER_ERROR_SECONDS if not isinstance(error, RunFenced) else 0.0

    def step(self) -> float:
        """Perform the action that is due. Return the seconds until the next step. Raises DaybreakError.

        Without a schedule, only build what operators request, and delete what is no longer needed: another scheduler
        starts the daily runs.
        """
        context = self._context
        context.state.read(lambda stores: stores.nodes.require_clock(context.clock))
        now = context.clock()
        request = take_request(context.state, now)
        if request is not None:
            self._run_request(request)
            return 0.0
        if not context.settings.snapshot.schedule:
            self._clean_up()
            return _MAX_WAIT_SECONDS
        due_day = last_due(now, context.settings.snapshot.publish_at)
        current, history = context.state.read(lambda stores: _current_and_history(stores, due_day))
        decision = decide(now, context.settings.snapshot, context.timings, current, history)
        if isinstance(decision, Wait):
            if decision.until - now >= _MIN_TIME_TO_CLEAN:
                self._clean_up()
            # Accurate to a millisecond, so that a publication is exactly at its hour.
            return max(min((decision.until - context.clock()).total_seconds(), _MAX_WAIT_SECONDS), 0.001)
        if isinstance(decision, Publish):
            if publish(context.state, context.store, context.settings, decision.snapshot, now):
                seconds = round((context.clock() - now).total_seconds(), 3)
                _log.info("snapshot.published", snapshot_id=decision.snapshot.snapshot_id, took_seconds=seconds)
            return 0.0
        end_lapsed_runs(context.state, now)
        if run_day(context, decision.day) is None:
            return _CLAIMED_BY_OTHER_SECONDS
        self._clean_up_at.clear()
        return 0.0

    def _run_request(self, request: RunRequest) -> None:
        """Build what an operator requested. Raises DaybreakError."""
        _log.info("run.requested", requested_by=request.requested_by, day=request.day and request.day.isoformat())
        if request.day is not None:
            run_day(self._context, request.day)
        else:
            run_manually(self._context)
        self._clean_up_at.clear()

    def _clean_up(self) -> None:
        """Delete what is no longer needed, at most once an hour. The two clean-ups fail separately."""
        for task, step in (("state-clean-up", self._clean_state), ("file-clean-up", self._clean_files)):
            ticks = self._context.ticks()
            if ticks >= self._clean_up_at.get(task, ticks):
                self._clean_up_at[task] = ticks + self._supervisor.attempt(task, step)

    def _clean_state(self) -> float:
        self._context.housekeeping(self._context.clock())
        return _CLEAN_INTERVAL_SECONDS

    def _clean_files(self) -> float:
        context = self._context
        cleaned = clean(context.state, context.store, context.settings, context.clock())
        if cleaned.files:
            _log.info("snapshots.cleaned", files=cleaned.files, retired=cleaned.retired, leftovers=cleaned.leftovers)
        if cleaned.unknown:
            _log.warning("snapshots.unknown", snapshots=cleaned.unknown)
        return _CLEAN_INTERVAL_SECONDS


def _current_and_history(stores: Stores, due_day: date) -> tuple[Snapshot | None, list[Snapshot]]:
    """Return the published snapshot, and recent runs, newest first. The runs of the due and the next day are always
    included, regardless of the number of later manual runs.
    """
    history = stores.snapshots.recent(_HISTORY_RUNS)
    known = {run.snapshot_id for run in history}
    days = [stores.snapshots.of_day(day) for day in (due_day + timedelta(days=1), due_day)]
    return stores.snapshots.current(), history + [run for run in days if run and run.snapshot_id not in known]


def send_heartbeats(context: RunContext, node: Callable[[datetime], Node]) -> None:
    """Record that this node is alive, until the context's `stop` is set."""

    def beat() -> float:
        with contextlib.suppress(Unavailable):
            context.state.write(lambda stores: stores.nodes.beat(node, context.clock))
        return _HEARTBEAT_SECONDS

    Supervisor(context.state, context.builder, context.clock).run("builder-heartbeat", beat, context.stop)


def take_low_priority() -> None:
    """Lower the priority of this process below that of web processes. The disk priority follows the CPU priority
    (ioprio_set(2)). Do nothing if the system denies the change.
    """
    with contextlib.suppress(OSError):
        os.nice(10)


def stop_on_signals(stop: threading.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT. A second signal ends the process immediately."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def run_builder(context: RunContext, node: Callable[[datetime], Node] | None = None) -> None:
    """Run the builder process until SIGTERM: low priority, heartbeats, and the loop."""
    take_low_priority()
    stop_on_signals(context.stop)
    if node is not None:
        threading.Thread(target=send_heartbeats, args=(context, node), name="heartbeat", daemon=True).start()
    # In a separate thread, because the loop is busy during a late run.
    threading.Thread(target=watch_lateness, args=(context,), name="lateness", daemon=True).start()
    Builder(context).run()
