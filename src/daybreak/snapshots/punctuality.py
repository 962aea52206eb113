"""Punctuality of past publications, one result for each day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from operator import itemgetter

from daybreak.domain.snapshot import Snapshot
from daybreak.snapshots.freshness import GRACE
from daybreak.snapshots.schedule import last_due, publication_of

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DayPublication:
    """The publication of one day.

    `published_at` is the first publication that satisfies the day, None if there is none so far. `lateness` is the time
    from the hour of publication to it, or to now; zero if the day's run was published earlier. It is None for days
    whose hour was before the first publication of the service, because the service may have been installed later.
    """

    day: date
    published_at: datetime | None
    lateness: timedelta | None

    @property
    def on_time(self) -> bool:
        """Whether the files were published at their hour."""
        return self.published_at is not None and self.lateness is not None and self.lateness <= GRACE


def punctuality(
    published: Sequence[Snapshot], now: datetime, publish_at: time_of_day, days: int
) -> list[DayPublication]:
    """Return the last `days` days that are due, oldest first, from all snapshots published since the first of them."""
    last = last_due(now, publish_at)
    found = ((each.published_at, each.as_of, each.day) for each in published if each.published_at is not None)
    instants = sorted(found, key=itemgetter(0, 1))
    results = []
    for offset in range(days - 1, -1, -1):
        day = last - offset * _DAY
        due = publication_of(day, publish_at)
        satisfying = next((at for at, as_of, of in instants if of == day or (at >= due and as_of >= due - _DAY)), None)
        judged = bool(instants) and instants[0][0] <= due + GRACE
        in_day = satisfying if satisfying is not None and satisfying < due + _DAY else None
        results.append(
            DayPublication(day, satisfying, max((satisfying or now) - due, timedelta()))
            if judged
            else DayPublication(day, in_day, None)
        )
    return results
