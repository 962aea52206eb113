"""The freshness panel, the strip that repeats it on other pages, and the strip of past publications."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.domain.display import local
from daybreak.domain.snapshot import Freshness, PublicationState, Snapshot
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.punctuality import DayPublication
from daybreak.web.dashboard.formatting import (
    format_age,
    format_countdown,
    format_date,
    format_datetime,
    format_duration,
    format_recent_datetime,
    format_time,
)
from daybreak.web.dashboard.page_request import PageRequest

Fact = tuple[str, str, datetime | None]

_WEEKDAYS_KNOWN_FOR = timedelta(days=6)
_TAGS: Mapping[PublicationState, str] = {
    PublicationState.FRESH: "Up to date",
    PublicationState.LATE: "Late",
    PublicationState.FAILED: "Failed",
    PublicationState.HELD: "Held",
    PublicationState.FIRST_RUN: "First run",
    PublicationState.UNPUBLISHED: "Not published",
}


@dataclass(frozen=True, slots=True)
class FreshnessView:
    """Content of the freshness panel.

    Attributes:
        state: The publication state, or `earlier` for an earlier snapshot. Selects colors and icon.
        tag: Name of the state.
        headline: The most important sentence, about `as_of` if that is not None.
        text: Further sentences; "" if all is well.
        facts: Label, text and instant of each further fact.
    """

    state: str
    tag: str
    headline: str
    as_of: datetime | None
    text: str
    facts: tuple[Fact, ...]

    @property
    def alert(self) -> str:
        """Word before the page title; "" if all is well."""
        return self.tag if self.text and self.state != "earlier" else ""

    @property
    def favicon(self) -> str:
        """Name of the icon of the browser tab."""
        return f"favicon-{self.state}.svg" if self.alert else "favicon.svg"


def freshness_view(fresh: Freshness, now: datetime, *, selected: Snapshot | None = None) -> FreshnessView:
    """Describe the published snapshot, or the selected one if that is an earlier one."""
    snapshot = fresh.snapshot
    if selected is not None and (snapshot is None or selected.snapshot_id != snapshot.snapshot_id):
        return FreshnessView(
            state="earlier",
            tag="Earlier snapshot",
            headline=f"As of {format_datetime(selected.as_of)}",
            as_of=selected.as_of,
            text="These are not the newest files.",
            facts=(("Published", format_datetime(selected.published_at), selected.published_at),),
        )
    return FreshnessView(
        state=fresh.state.value,
        tag=_TAGS[fresh.state],
        headline=_headline(fresh, now),
        as_of=snapshot.as_of if snapshot is not None and fresh.state is PublicationState.FRESH else None,
        text=" ".join(_sentences(fresh, now)),
        facts=tuple(_facts(fresh, now)),
    )


def _headline(fresh: Freshness, now: datetime) -> str:
    match fresh.state:
        case PublicationState.FIRST_RUN:
            return "The first files are being built"
        case PublicationState.UNPUBLISHED:
            return "No files published yet"
        case PublicationState.FAILED:
            return "Today's files failed to build"
        case PublicationState.HELD:
            return "Today's files are held for review"
        case PublicationState.LATE:
            return f"Late by {_lateness(fresh, now)}"
    assert fresh.snapshot is not None
    return f"As of {format_recent_datetime(fresh.snapshot.as_of, now)}"


def _sentences(fresh: Freshness, now: datetime) -> list[str]:
    """Return what the headline leaves out: the lateness, the age of the files, and what happens next."""
    if fresh.state is PublicationState.FRESH:
        return []
    sentences = []
    if fresh.snapshot is not None and fresh.state is not PublicationState.LATE:
        sentences.append(f"Late by {_lateness(fresh, now)}.")
    if fresh.snapshot is not None:
        sentences.append(f"You see {_day_of(fresh.snapshot.as_of, now)} ({format_age(fresh.snapshot.as_of, now)}).")
    return [*sentences, _next_step(fresh)]


def _next_step(fresh: Freshness) -> str:
    match fresh.state:
        case PublicationState.HELD:
            return "An operator must accept or discard them."
        case PublicationState.FAILED if fresh.next_attempt_at is not None:
            return f"Next attempt {format_time(fresh.next_attempt_at)}."
        case PublicationState.FAILED:
            return "The next attempt starts as soon as possible."
        case PublicationState.FIRST_RUN:
            return "They appear here when the run is complete."
    return fresh.reason or ""


def _facts(fresh: Freshness, now: datetime) -> list[Fact]:
    snapshot, next_at = fresh.snapshot, fresh.next_expected_at
    facts: list[Fact] = []
    if snapshot is not None and fresh.state is not PublicationState.FRESH:
        facts.append(("As of", format_recent_datetime(snapshot.as_of, now), snapshot.as_of))
    if snapshot is not None and snapshot.published_at is not None:
        facts.append(("Published", format_recent_datetime(snapshot.published_at, now), snapshot.published_at))
    # Late files appear as soon as possible: the next scheduled publication is not what people wait for.
    if snapshot is None or fresh.state is PublicationState.FRESH:
        label = "Next files" if snapshot is not None else "Expected"
        facts.append((label, f"{format_countdown(next_at, now)} ({format_time(next_at)})", next_at))
    return facts


def _lateness(fresh: Freshness, now: datetime) -> str:
    return format_duration(max(now - (fresh.late_since or now), timedelta(minutes=1)))


def _day_of(as_of: datetime, now: datetime) -> str:
    day = local(as_of)
    return f"{day:%A}'s data" if now - as_of < _WEEKDAYS_KNOWN_FOR else f"the data of {format_date(day)}"


async def load_status(page: PageRequest) -> FreshnessView:
    """Return the content of the panel or of the strip about the published snapshot."""
    publish_at = page.dashboard.publish_at
    fresh = await page.read(lambda stores: freshness(stores.snapshots, page.now, publish_at))
    return freshness_view(fresh, page.now)


def day_view(each: DayPublication) -> tuple[str, str]:
    """Return the kind of a day, `on-time`, `late-day`, `missing` or `unknown`, and the same in words."""
    day = format_date(each.day)
    if each.lateness is None:
        return "unknown", f"{day}: {'first publication' if each.published_at else 'before the first publication'}"
    if each.published_at is None:
        return "missing", f"{day}: not published, late by {format_duration(each.lateness)}"
    if each.on_time:
        return "on-time", f"{day}: on time"
    return "late-day", f"{day}: {format_duration(each.lateness)} late"
