"""The builder: a process of its own that looks at the clock and does what is due.

Any number may run, on any number of nodes. None of them is special: the database decides who has a day, and a
publication happens once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from datetime import date, datetime, timedelta
from types import FrameType

import structlog

from daybreak.domain.errors import DaybreakError, RunError, RunFenced
from daybreak.domain.snapshot import Snapshot
from daybreak.ports.state import Node, Stores
from daybreak.snapshots.lateness import watch_lateness
from daybreak.snapshots.publish import publish
from daybreak.snapshots.retention import clean
from daybreak.snapshots.run import run_day
from daybreak.snapshots.schedule import STOPPED, Build, Publish, Wait, decide, last_due
from daybreak.snapshots.workshop import Workshop

_log = structlog.get_logger("daybreak.snapshots")
_HISTORY = 60
# The clock may step and other builders may die: nobody sleeps for longer than this before looking again.
_LOOK_SECONDS = 5.0
_AFTER_ERROR_SECONDS = 5.0
_CLEAN_EVERY_SECONDS = 3600.0
# Millions of files take minutes to remove: publication must not wait for that.
_CLEAN_ROOM = timedelta(minutes=30)
_BEAT_SECONDS = 15.0


class Builder:
    """The main loop. `run` returns when the workshop's `stop` is set."""

    def __init__(self, workshop: Workshop) -> None:
        self._shop = workshop
        self._cleaned_at: float | None = None

    def run(self) -> None:
        """Looks at the clock until it is told to stop. Errors are logged and tried again: a builder that ended because
        the database was away for a minute would be missed at the hour of publication.
        """
        _log.info("builder.started", builder=self._shop.builder)
        while not self._shop.stop.is_set():
            try:
                seconds = self.step()
            except RunError as error:
                if error.code == STOPPED:
                    break
                _log.error("builder.run_failed", code=error.code, reason=error.message)
                seconds = _AFTER_ERROR_SECONDS if not isinstance(error, RunFenced) else 0.0
            except DaybreakError as error:
                _log.error("builder.error", code=error.code, reason=error.message)
                seconds = _AFTER_ERROR_SECONDS
            self._shop.stop.wait(seconds)
        _log.info("builder.stopped", builder=self._shop.builder)

    def step(self) -> float:
        """Does what is due now; gives the seconds until the next look. Raises DaybreakError."""
        shop = self._shop
        now = shop.clock()
        due = last_due(now, shop.plan.publish_at)
        current, history = shop.state.read(lambda stores: _look(stores, due))
        decision = decide(now, shop.plan, current, history)
        if isinstance(decision, Wait):
            if decision.until - now >= _CLEAN_ROOM:
                self._clean_sometimes()
            # The last stretch is waited for to the millisecond: publication is at the hour sharp.
            return max(min((decision.until - shop.clock()).total_seconds(), _LOOK_SECONDS), 0.001)
        if isinstance(decision, Publish):
            if publish(shop.state, decision.snapshot, now):
                late = (shop.clock() - now).total_seconds()
                _log.info("snapshot.published", snapshot_id=decision.snapshot.snapshot_id, took_seconds=round(late, 3))
            return 0.0
        assert isinstance(decision, Build)
        lapsed = shop.state.write(lambda stores: stores.snapshots.lapse(now))
        for run in lapsed:
            _log.warning("run.lapsed", snapshot_id=run.snapshot_id, builder=run.builder)
        if run_day(shop, decision.day) is None:
            return 1.0
        self._cleaned_at = None
        return 0.0

    def _clean_sometimes(self) -> None:
        ticks = self._shop.ticks()
        if self._cleaned_at is None or ticks - self._cleaned_at >= _CLEAN_EVERY_SECONDS:
            self._cleaned_at = ticks
            self._shop.tidy(self._shop.clock())
            cleaned = clean(self._shop.state, self._shop.store, self._shop.plan, self._shop.clock())
            if cleaned.files:
                _log.info(
                    "snapshots.cleaned", files=cleaned.files, retired=cleaned.retired, leftovers=cleaned.leftovers
                )
            if cleaned.unknown:
                _log.warning("snapshots.unknown", snapshots=cleaned.unknown)


def _look(stores: Stores, due: date) -> tuple[Snapshot | None, list[Snapshot]]:
    """What is served, and the runs so far, newest first: the due and the coming day's among them, however many runs by
    hand there were since.
    """
    history = stores.snapshots.recent(_HISTORY)
    known = {run.snapshot_id for run in history}
    days = [stores.snapshots.of_day(day) for day in (due + timedelta(days=1), due)]
    return stores.snapshots.current(), history + [run for run in days if run and run.snapshot_id not in known]


def beat_until_stopped(workshop: Workshop, node: Callable[[datetime], Node]) -> None:
    """Says that this node lives, until the workshop's `stop` is set."""
    while True:
        now = workshop.clock()
        with contextlib.suppress(DaybreakError):
            workshop.state.write(lambda stores, now=now: stores.nodes.beat(node(now)))  # type: ignore[misc]
        if workshop.stop.wait(_BEAT_SECONDS):
            return


def take_low_priority() -> None:
    """Lets requests go first: the processor serves this process when nobody else wants it, and so does the disk, whose
    priority follows the processor's (ioprio_set(2)). What the system refuses is left out.
    """
    with contextlib.suppress(OSError):
        os.nice(10)


def stop_on_signals(stop: threading.Event) -> None:
    """SIGTERM and SIGINT end the loop at the next file; a second one ends the process at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def run_builder(workshop: Workshop, node: Callable[[datetime], Node] | None = None) -> None:
    """The builder process: low priority, a heartbeat, and the loop until SIGTERM."""
    take_low_priority()
    stop_on_signals(workshop.stop)
    if node is not None:
        threading.Thread(target=beat_until_stopped, args=(workshop, node), name="beat", daemon=True).start()
    # Beside the loop: what makes files late is a run that the loop is busy with.
    threading.Thread(target=watch_lateness, args=(workshop,), name="lateness", daemon=True).start()
    Builder(workshop).run()
