"""State, settings, clock and callbacks of the deliverer, in one frozen value."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from daybreak.credentials.keyring import KeyringFile
from daybreak.events.webhook_client import TIMEOUT_SECONDS, Resolve
from daybreak.settings import Settings
from daybreak.state.stores import State

if TYPE_CHECKING:
    from daybreak.telemetry import Tracing


@dataclass(frozen=True, slots=True)
class DeliveryTimings:
    """Intervals of the deliverer that are not settings. Tests shorten them.

    After the last of `retry_after`, attempts follow at that interval until `give_up_after`. An endpoint whose attempts
    fail for `give_up_after` is disabled. The lease is renewed when half of it is left, and an attempt starts only if
    the lease outlives it.

    Mails wait at most `refused_mail_after` for a mailbox that refuses them (RFC 5321 §4.5.4.1), and `mail_server_after`
    for a mail server that cannot be used. Until `mail_pause_seconds` after such an attempt, no other mail is attempted.
    """

    retry_after: tuple[timedelta, ...] = (
        timedelta(seconds=5),
        timedelta(minutes=5),
        timedelta(minutes=30),
        timedelta(hours=2),
        timedelta(hours=5),
        timedelta(hours=10),
        timedelta(hours=14),
        timedelta(hours=20),
        timedelta(hours=24),
    )
    give_up_after: timedelta = timedelta(days=5)
    refused_mail_after: timedelta = timedelta(hours=1)
    mail_server_after: timedelta = timedelta(minutes=5)
    mail_pause_seconds: float = 30.0
    timeout_seconds: float = TIMEOUT_SECONDS
    lease_seconds: float = 60.0
    poll_seconds: float = 1.0

    def retry_at(
        self, attempts: int, created_at: datetime, now: datetime, longest: timedelta = timedelta.max
    ) -> datetime | None:
        """Return when a delivery that failed that often is attempted again, None to give up.

        Time in which no attempts were made does not count, such as that of a service that was stopped.
        """
        if attempts > len(self.retry_after) and now >= created_at + self.give_up_after:
            return None
        return now + min(self.retry_after[min(attempts, len(self.retry_after)) - 1], longest)


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """What the deliverer works with.

    `clock` returns aware UTC instants, `ticks` monotonic seconds, `random(n)` n random bytes. `holder` is the name of
    this process in the lease. `stop` is set when the process must end.
    """

    state: State
    settings: Settings
    keyring: KeyringFile
    holder: str
    clock: Callable[[], datetime]
    ticks: Callable[[], float]
    random: Callable[[int], bytes]
    timings: DeliveryTimings = field(default_factory=DeliveryTimings)
    resolve: Resolve | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    tracing: "Tracing | None" = None
