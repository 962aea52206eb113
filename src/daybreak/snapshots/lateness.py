"""Says in the log that files are late while they are: also while the builder is busy with the run that is late."""

from __future__ import annotations

import contextlib
from datetime import time as time_of_day

import structlog

from daybreak.domain.errors import DaybreakError
from daybreak.domain.snapshot import Freshness
from daybreak.snapshots.freshness import at_its_hour, freshness
from daybreak.snapshots.workshop import Workshop

_log = structlog.get_logger("daybreak.snapshots")
_LOOK_SECONDS = 5.0
_FRESH = "fresh"
_FORETOLD = "foretold"


class LatenessLog:
    """A line when lateness is foreseen, when it begins, when its reason changes, and when it is over."""

    def __init__(self, publish_at: time_of_day) -> None:
        self.publish_at = publish_at
        self._said = _FRESH

    def tell(self, fresh: Freshness) -> None:
        """Compares what is with what was said last."""
        expected_at = fresh.next_expected_at
        if fresh.reason is not None:
            # The share in brackets grows with every look: it is no other reason.
            found = fresh.reason.split(" (")[0]
        else:
            found = _FRESH if at_its_hour(expected_at, self.publish_at) else _FORETOLD
        if found == self._said:
            return
        self._said = found
        if fresh.reason is not None:
            _log.warning("files.late", reason=fresh.reason, expected_at=expected_at.isoformat())
        elif found == _FORETOLD:
            _log.warning("files.will_be_late", expected_at=expected_at.isoformat())
        else:
            _log.info("files.fresh", next_at=expected_at.isoformat())


def watch_lateness(workshop: Workshop) -> None:
    """Looks every few seconds until the workshop's `stop` is set."""
    log = LatenessLog(workshop.plan.publish_at)
    while not workshop.stop.wait(_LOOK_SECONDS):
        # A database that is away says nothing about the files; the loop says that it is away.
        with contextlib.suppress(DaybreakError):
            now = workshop.clock()
            log.tell(workshop.state.read(lambda stores, now=now: freshness(stores.snapshots, now, log.publish_at)))  # type: ignore[misc]
