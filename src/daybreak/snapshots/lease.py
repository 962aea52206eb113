"""A builder's hold on its run: renewed by a thread of its own, and lost for good once another builder has taken over.

The database's fence is what keeps a stale builder from writing manifests or publishing; the lease here only tells the
builder early, so that it stops working for nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar

from daybreak.domain.errors import RunError, RunFenced, Unavailable
from daybreak.domain.snapshot import Snapshot
from daybreak.ports.state import State, Stores
from daybreak.snapshots.plan import RunPlan
from daybreak.snapshots.schedule import STOPPED

T = TypeVar("T")


class Lease:
    """Renews the claim on a run until it is left. `told` gives the progress that goes along.

    `stop` is set when the process is to end: the run then stops at its next file.
    """

    def __init__(
        self,
        state: State,
        snapshot: Snapshot,
        plan: RunPlan,
        *,
        clock: Callable[[], datetime],
        told: Callable[[], Mapping[str, object]],
        stop: threading.Event,
    ) -> None:
        self._state, self._snapshot, self._plan = state, snapshot, plan
        self._clock, self._told, self._stop = clock, told, stop
        self._lost = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_left, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.join()

    def check(self) -> None:
        """Raises RunFenced when the run belongs to another, RunError (`run_stopped`) when the process is to end."""
        if self._lost.is_set():
            raise RunFenced(f"Run {self._snapshot.snapshot_id} was taken over by another builder.")
        if self._stop.is_set():
            raise RunError("The run was stopped because the process is ending.", code=STOPPED)

    def held(self) -> bool:
        """Asks the database whether the run is still this builder's; a database that is away does not say no."""
        try:
            return not self._lost.is_set() and self._renewed()
        except Unavailable:
            return True

    def patiently(self, work: Callable[[Stores], T]) -> T:
        """Does work in one transaction, waiting for a database that is away as long as the claim stands.
        Raises RunFenced, RunError (`run_stopped`), Unavailable.
        """
        given_up_at = time.monotonic() + self._plan.lease_seconds
        pause = 0.1
        while True:
            self.check()
            try:
                return self._state.write(work)
            except Unavailable:
                if time.monotonic() >= given_up_at:
                    raise
                self._stop.wait(pause)
                pause = min(pause * 2, 5.0)

    def _renewed(self) -> bool:
        now, told = self._clock(), self._told()
        return self._state.write(
            lambda stores: stores.snapshots.renew(
                self._snapshot.snapshot_id, self._snapshot.fence, now, self._plan.lease_seconds, told
            )
        )

    def _renew_until_left(self) -> None:
        good_until = time.monotonic() + self._plan.lease_seconds
        try:
            while not self._left.wait(self._plan.heartbeat_seconds):
                asked_at = time.monotonic()
                try:
                    held = self._renewed()
                except Unavailable:
                    # The database is away: the claim stands as long as the lease that was granted last.
                    held = asked_at < good_until
                else:
                    good_until = asked_at + self._plan.lease_seconds
                if not held:
                    return
        finally:
            # However this thread ends before the run does, nobody renews any more.
            if not self._left.is_set():
                self._lost.set()
