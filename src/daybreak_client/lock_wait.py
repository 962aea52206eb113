"""The wait for a lock that another fetch or sync holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from daybreak_client.errors import Busy

T = TypeVar("T")

_ANNOUNCE_SECONDS = 5.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class LockWait:
    """Maximum wait for a lock in seconds, and a receiver of text about a wait that takes longer than 5 seconds."""

    seconds: float = 300.0
    announce: Callable[[str], None] = lambda _text: None

    def acquire(self, attempt: Callable[[], T | None], holder: str) -> T:
        """Repeat an attempt until it returns a value. `holder` is a sentence. Raises Busy after the maximum wait."""
        start, announced = time.monotonic(), False
        while True:
            found = attempt()
            if found is not None:
                return found
            waited = time.monotonic() - start
            if waited >= self.seconds:
                raise Busy(f"{holder} Try again later, or wait longer with --lock-timeout.")
            if waited >= _ANNOUNCE_SECONDS and not announced:
                announced = True
                self.announce(f"{holder} Waiting up to {self.seconds:.0f} seconds.")
            time.sleep(min(_POLL_SECONDS, self.seconds - waited))


NO_WAIT = LockWait(0.0)
DEFAULT_WAIT = LockWait()
