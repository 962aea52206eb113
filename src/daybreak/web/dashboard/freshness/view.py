"""Template variables of the freshness panel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from daybreak.domain.snapshot import Freshness, Snapshot
from daybreak.web.dashboard.formatting import (
    format_countdown,
    format_datetime,
    format_recent_datetime,
    format_time,
)


@dataclass(frozen=True, slots=True)
class FreshnessView:
    """Content of the freshness panel.

    Attributes:
        headline: Text about `as_of`, the instant that the files describe.
        kind: Color of the state: `good`, `warn` or `bad`.
        facts: Label, text and instant of each further fact.
        reason: Why files are late; "" if they are not.
    """

    headline: str
    as_of: datetime | None
    kind: str
    state: str
    facts: tuple[tuple[str, str, datetime | None], ...]
    reason: str


def freshness_view(fresh: Freshness, now: datetime, *, selected: Snapshot | None = None) -> FreshnessView:
    """Describe the published snapshot, or the selected one if that is an earlier one."""
    snapshot = fresh.snapshot
    next_at = fresh.next_expected_at
    next_fact = ("Next", f"{format_countdown(next_at, now)} ({format_time(next_at)})", next_at)
    if selected is not None and (snapshot is None or selected.snapshot_id != snapshot.snapshot_id):
        return FreshnessView(
            headline=f"Earlier snapshot, as of {format_datetime(selected.as_of)}",
            as_of=selected.as_of,
            kind="warn",
            state="Not the newest",
            facts=(("Published", format_datetime(selected.published_at), selected.published_at),),
            reason="",
        )
    if snapshot is None or snapshot.published_at is None:
        return FreshnessView(
            headline="No files published yet",
            as_of=None,
            kind="bad" if fresh.late else "warn",
            state="Waiting for the first snapshot",
            facts=(next_fact,),
            reason=fresh.reason or "",
        )
    published_at = snapshot.published_at
    return FreshnessView(
        headline=f"As of {format_recent_datetime(snapshot.as_of, now)}",
        as_of=snapshot.as_of,
        kind="warn" if fresh.late else "good",
        state="Late" if fresh.late else "Up to date",
        facts=(("Published", format_recent_datetime(published_at, now), published_at), next_fact),
        reason=fresh.reason or "" if fresh.late else "",
    )
