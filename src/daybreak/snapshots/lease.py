"""A builder's lease on its run: renewed by a separate thread, and lost permanently when another builder takes the run.

The fencing token in the database keeps a stale builder from writing manifests or publishing. A lost lease
stops the builder earlier.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from daybreak.domain.errors import RunError, RunFenced, Unavailable
from daybreak.domain.run_report import RunProgress
from daybreak.domain.snapshot import Snapshot
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import STOPPED
from daybreak.state.stores import Stores

T = TypeVar("T")
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0


class Lease:
    """Renews the lease of a run until the context ends. `progress` returns what is stored with each renewal."""

    def __init__(self, context: RunContext, snapshot: Snapshot, progress: Callable[[], RunProgress]) -> None:
        self._context, self._snapshot, self._progress = context, snapshot, progress
        self._lost = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_ended, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def check(self) -> None:
        """Raise RunFenced if another builder has the run, RunError (`run_stopped`) if the process must end."""
        if self._lost.is_set():
            raise RunFenced(f"Run {self._snapshot.snapshot_id} was taken over by another builder.")
        if self._context.stop.is_set():
            raise RunError("The run was stopped because the process is ending.", code=STOPPED)

    def is_held(self) -> bool:
        """Return whether the database assigns the run to this builder. Return True if the database is unavailable."""
        try:
            return not self._lost.is_set() and self._renew()
        except Unavailable:
            return True

    def write(self, work: Callable[[Stores], T]) -> T:
        """Run `work` in one transaction, retrying for the duration of a lease while the database is unavailable.
        Raises RunFenced, RunError (`run_stopped`), Unavailable.
        """
        give_up_at = time.monotonic() + self._context.timings.lease_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self.check()
            try:
                return self._context.state.write(work)
            except Unavailable:
                if time.monotonic() >= give_up_at:
                    raise
                self._context.stop.wait(pause)
                pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    def write_in_batches(self, items: Sequence[T], size: int, work: Callable[[Sequence[T], Stores], object]) -> None:
        """Run `work` on some of the items in each transaction, as `write` does."""
        for start in range(0, len(items), size):
            self.write(partial(work, items[start : start + size]))

    def _renew(self) -> bool:
        now, progress = self._context.clock(), self._progress()
        snapshot, lease_seconds = self._snapshot, self._context.timings.lease_seconds
        return self._context.state.write(
            lambda stores: stores.snapshots.renew(snapshot.snapshot_id, snapshot.fence, now, lease_seconds, progress)
        )

    def _renew_until_ended(self) -> None:
        timings = self._context.timings
        valid_until = time.monotonic() + timings.lease_seconds
        try:
            while not self._ended.wait(timings.heartbeat_seconds):
                requested_at = time.monotonic()
                try:
                    held = self._renew()
                except Unavailable:
                    # The lease of the last renewal can still be valid.
                    held = requested_at < valid_until
                else:
                    valid_until = requested_at + timings.lease_seconds
                if not held:
                    return
        finally:
            # If this thread ends before the run for any reason, the lease is no longer renewed.
            if not self._ended.is_set():
                self._lost.set()
