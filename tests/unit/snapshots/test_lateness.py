"""What the log says of lateness: each thing once, when it begins."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
import structlog.testing

from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.snapshots.freshness import judge
from daybreak.snapshots.lateness import LatenessLog

FOUR = datetime(2026, 11, 20, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def told() -> list[Any]:
    log = LatenessLog(time(4))
    making = "Today's snapshot is still being made"
    looks = [
        Freshness(None, FOUR, late=False),
        Freshness(None, FOUR + MINUTE, late=False),
        Freshness(None, FOUR + 20 * MINUTE, late=False),
        Freshness(None, FOUR + 21 * MINUTE, late=False),
        Freshness(None, FOUR + 21 * MINUTE, late=True, reason=f"{making} (60% done)."),
        Freshness(None, FOUR + 21 * MINUTE, late=True, reason=f"{making} (65% done)."),
        Freshness(None, FOUR + 1440 * MINUTE, late=True, reason="It failed."),
        Freshness(None, FOUR + 1440 * MINUTE, late=False),
        Freshness(None, FOUR + 1440 * MINUTE, late=False),
    ]
    with structlog.testing.capture_logs() as lines:
        for fresh in looks:
            log.tell(fresh)
    return lines


def test_lateness_is_foretold_said_and_taken_back_once_each(told: list[Any]) -> None:
    assert [line["event"] for line in told] == ["files.will_be_late", "files.late", "files.late", "files.fresh"]
    assert told[0]["expected_at"] == (FOUR + 20 * MINUTE).isoformat()
    assert told[1]["log_level"] == "warning"
    assert told[2]["reason"] == "It failed."


def test_the_hour_itself_makes_nothing_fresh_that_was_foretold_to_be_late() -> None:
    running = Snapshot(
        "00000000-0000-4000-8000-000000000001",
        SnapshotState.BUILDING,
        FOUR - 30 * MINUTE,
        FOUR - 30 * MINUTE,
        day=FOUR.date(),
        lease_until=FOUR + 5 * MINUTE,
        progress={"expected_end": (FOUR + 20 * MINUTE).isoformat()},
    )
    yesterday = FOUR - 1440 * MINUTE
    served = Snapshot(
        "00000000-0000-4000-8000-000000000002", SnapshotState.PUBLISHED, yesterday, yesterday, published_at=yesterday
    )
    log = LatenessLog(time(4))
    with structlog.testing.capture_logs() as lines:
        for minutes in (-10.0, 0.0, 0.5, 1.0, 2.0):
            log.tell(judge(served, [running], FOUR + minutes * MINUTE, time(4)))
    assert [line["event"] for line in lines] == ["files.will_be_late", "files.late"]
