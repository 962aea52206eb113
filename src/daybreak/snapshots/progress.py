"""How far a run is: counted by the threads that write, read by whoever watches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from daybreak.snapshots.report import figure, resources_of

_SHARE_LEAST = 0.02
_BEFORE_THE_END = frozenset({"cleaning up", "opening", "writing"})


class Progress:
    """Counts of one run. `expected` is the report of an earlier run: its seconds and rows say how much is left.

    `clock` gives aware UTC instants, `ticks` monotonic seconds.
    """

    def __init__(
        self,
        resources: tuple[str, ...],
        expected: Mapping[str, object],
        clock: Callable[[], datetime],
        ticks: Callable[[], float],
    ) -> None:
        self._lock = threading.Lock()
        self._names = resources
        self._clock, self._ticks = clock, ticks
        self._began = ticks()
        self._phase = "cleaning up"
        self._resource: str | None = None
        self._place = 0
        self._rows = self._rows_before = self._bytes = self._files = self._carried = 0
        figures = resources_of(expected)
        self._seconds = {name: figure(figures.get(name, {}), "seconds") for name in resources}
        self._rows_expected = {name: figure(figures.get(name, {}), "rows") for name in resources}
        self._whole = figure(expected, "seconds")

    def enter(self, phase: str) -> None:
        """Begins a phase, in the words of the report's `phases`."""
        with self._lock:
            self._phase = phase
            if phase != "writing":
                self._resource = None

    def begin(self, resource: str) -> None:
        """Begins a resource."""
        with self._lock:
            self._phase, self._resource = "writing", resource
            self._place = self._names.index(resource) + 1
            self._rows_before = self._rows

    def reach(self, rows: int) -> None:
        """So many rows of the resource are done."""
        with self._lock:
            self._rows = self._rows_before + rows

    def add_file(self, size_bytes: int, *, carried: bool = False) -> None:
        with self._lock:
            self._files += 1
            self._carried += carried
            self._bytes += size_bytes

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return self._ticks() - self._began

    def as_json(self) -> dict[str, object]:
        """What `snapshot watch`, the pages and the freshness information show. Counts are of the run so far."""
        with self._lock:
            seconds = self.seconds
            found: dict[str, object] = {
                "phase": self._phase,
                "resource": self._resource,
                "resource_number": self._place,
                "resources": len(self._names),
                "rows": self._rows,
                "bytes": self._bytes,
                "files": self._files,
                "carried": self._carried,
                "seconds": round(seconds, 1),
                "rows_per_second": round(self._rows / seconds) if seconds > 0 else 0,
            }
            share = self._share()
        if share is not None:
            found["share"] = round(share, 4)
            if share >= _SHARE_LEAST:
                left = max(seconds / share - seconds, 0.0)
                found["seconds_left"] = round(left)
                found["expected_end"] = (self._clock() + timedelta(seconds=left)).isoformat()
        return found

    def _share(self) -> float | None:
        """The share of an earlier run's time that lies behind, None without one."""
        if self._whole <= 0:
            return None
        if self._phase == "complete":
            return 1.0
        if self._phase not in _BEFORE_THE_END:
            done = sum(self._seconds.values())
        else:
            done = sum(self._seconds[name] for name in self._names[: max(self._place - 1, 0)])
        if self._resource is not None and self._rows_expected[self._resource] > 0:
            part = (self._rows - self._rows_before) / self._rows_expected[self._resource]
            done += self._seconds[self._resource] * min(part, 1.0)
        return min(done / self._whole, 0.99)
