"""Freshness in words: one line to read first, and what stands behind it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from daybreak.domain.snapshot import Freshness, Snapshot
from daybreak.web.dashboard.presentation import clock, day_and_clock, instant, until


@dataclass(frozen=True, slots=True)
class FreshnessView:
    """`line` is the headline, about `as_of`; `kind` good, warn or bad; `facts` are (name, text, instant)."""

    line: str
    as_of: datetime | None
    kind: str
    state: str
    facts: tuple[tuple[str, str, datetime | None], ...]
    reason: str


def freshness_view(fresh: Freshness, now: datetime, *, chosen: Snapshot | None = None) -> FreshnessView:
    """What to say of the served snapshot; of an earlier one when `chosen` is another."""
    snapshot = fresh.snapshot
    due_in = f"{until(fresh.next_expected_at, now)} ({clock(fresh.next_expected_at)})"
    if chosen is not None and (snapshot is None or chosen.snapshot_id != snapshot.snapshot_id):
        return FreshnessView(
            line=f"An earlier snapshot: as of {instant(chosen.as_of)}",
            as_of=chosen.as_of,
            kind="warn",
            state="Not the newest",
            facts=(("published", instant(chosen.published_at), chosen.published_at),),
            reason="",
        )
    if snapshot is None or snapshot.published_at is None:
        return FreshnessView(
            line="No files have been published yet",
            as_of=None,
            kind="bad" if fresh.late else "warn",
            state="Waiting for the first snapshot",
            facts=(("next", due_in, fresh.next_expected_at),),
            reason=fresh.reason or "",
        )
    return FreshnessView(
        line=f"As of {day_and_clock(snapshot.as_of, now)}",
        as_of=snapshot.as_of,
        kind="warn" if fresh.late else "good",
        state="Late" if fresh.late else "Fresh",
        facts=(
            ("published", day_and_clock(snapshot.published_at, now), snapshot.published_at),
            ("next", due_in, fresh.next_expected_at),
        ),
        reason=fresh.reason or "" if fresh.late else "",
    )
