"""Progress of a run: updated by the exporting thread, read by other threads."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import UNSET, structs

from daybreak.domain.run_report import ResourceFigures, RunProgress, RunReport

_MIN_SHARE = 0.02
_PHASES_BEFORE_CHECKS = frozenset({"cleaning up", "opening", "writing"})


class Progress:
    """Counts of one run. `expected` is the report of an earlier run. Its seconds and rows are used to estimate the
    remaining time.

    `clock` returns aware UTC instants, `ticks` monotonic seconds.
    """

    def __init__(
        self, resources: tuple[str, ...], expected: RunReport, clock: Callable[[], datetime], ticks: Callable[[], float]
    ) -> None:
        self._lock = threading.Lock()
        self._names = resources
        self._clock, self._ticks = clock, ticks
        self._began = ticks()
        self._phase = "cleaning up"
        self._resource: str | None = None
        self._resource_number = 0
        self._rows = self._rows_before = self._bytes = self._files = self._reused_files = 0
        self._inserted = self._deleted = 0
        self._expected = {name: expected.by_resource.get(name, ResourceFigures()) for name in resources}
        self._expected_total_seconds = expected.seconds or 0.0

    def enter_phase(self, phase: str) -> None:
        """Begin a phase, named as in the report's `phases`. The export of a resource has the name of the resource."""
        with self._lock:
            self._phase, self._resource = phase, None
            if phase in self._names:
                self._phase, self._resource = "writing", phase
                self._resource_number = self._names.index(phase) + 1
                self._rows_before = self._rows

    def rows_done(self, rows: int) -> None:
        """Record the rows of the resource exported so far."""
        with self._lock:
            self._rows = self._rows_before + rows

    def add_files(self, count: int, size_bytes: int) -> None:
        """Count files that were written. `size_bytes` is their total size."""
        with self._lock:
            self._files += count
            self._bytes += size_bytes

    def add_delta(self, inserted: int, deleted: int) -> None:
        """Count the rows of a delta."""
        with self._lock:
            self._inserted += inserted
            self._deleted += deleted

    def add_reused_files(self, count: int) -> None:
        """Count files of an earlier snapshot that were reused."""
        with self._lock:
            self._files += count
            self._reused_files += count

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return self._ticks() - self._began

    def read(self) -> RunProgress:
        """Return the progress, for any thread."""
        with self._lock:
            seconds, share = self.seconds, self._share()
            progress = RunProgress(
                phase=self._phase,
                resource=self._resource,
                resource_number=self._resource_number,
                resources=len(self._names),
                rows=self._rows,
                bytes=self._bytes,
                files=self._files,
                carried=self._reused_files,
                inserted=self._inserted,
                deleted=self._deleted,
                seconds=round(seconds, 1),
                rows_per_second=round(self._rows / seconds) if seconds > 0 else 0,
                share=UNSET if share is None else round(share, 4),
            )
        if share is None or share < _MIN_SHARE:
            return progress
        seconds_left = max(seconds / share - seconds, 0.0)
        expected_end = self._clock() + timedelta(seconds=seconds_left)
        return structs.replace(progress, seconds_left=round(seconds_left), expected_end=expected_end)

    def _share(self) -> float | None:
        """Return the completed share of the run, as a share of an earlier run's time. None without an earlier run."""
        if self._expected_total_seconds <= 0:
            return None
        if self._phase == "complete":
            return 1.0
        if self._phase not in _PHASES_BEFORE_CHECKS:
            done = sum(figures.seconds for figures in self._expected.values())
        else:
            done = sum(self._expected[name].seconds for name in self._names[: max(self._resource_number - 1, 0)])
        if self._resource is not None and self._expected[self._resource].rows > 0:
            part = (self._rows - self._rows_before) / self._expected[self._resource].rows
            done += self._expected[self._resource].seconds * min(part, 1.0)
        return min(done / self._expected_total_seconds, 0.99)
