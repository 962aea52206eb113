"""The lateness log: each change is logged once."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
import structlog.testing

from daybreak.domain.run_report import RunProgress
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.snapshots.freshness import assess_freshness
from daybreak.snapshots.lateness_log import LatenessLog

FOUR = datetime(2026, 11, 20, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def lines() -> list[Any]:
    log = LatenessLog(time(4))
    reason = "Today's files are still being built"
    observed = [
        Freshness(None, FOUR, late=False),
        Freshness(None, FOUR + MINUTE, late=False),
        Freshness(None, FOUR + 20 * MINUTE, late=False),
        Freshness(None, FOUR + 21 * MINUTE, late=False),
        Freshness(None, FOUR + 21 * MINUTE, late=True, reason=f"{reason} (60 % done)."),
        Freshness(None, FOUR + 21 * MINUTE, late=True, reason=f"{reason} (65 % done)."),
        Freshness(None, FOUR + 1440 * MINUTE, late=True, reason="It failed."),
        Freshness(None, FOUR + 1440 * MINUTE, late=False),
        Freshness(None, FOUR + 1440 * MINUTE, late=False),
    ]
    with structlog.testing.capture_logs() as captured:
        for fresh in observed:
            log.update(fresh)
    return captured


def test_each_change_is_logged_once(lines: list[Any]) -> None:
    assert [line["event"] for line in lines] == ["files.will_be_late", "files.late", "files.late", "files.fresh"]
    assert lines[0]["expected_at"] == (FOUR + 20 * MINUTE).isoformat()
    assert lines[1]["log_level"] == "warning"
    assert lines[2]["reason"] == "It failed."


def test_predicted_lateness_continues_at_the_hour() -> None:
    running = Snapshot(
        "00000000-0000-4000-8000-000000000001",
        SnapshotState.BUILDING,
        FOUR - 30 * MINUTE,
        FOUR - 30 * MINUTE,
        day=FOUR.date(),
        lease_until=FOUR + 5 * MINUTE,
        progress=RunProgress(expected_end=(FOUR + 20 * MINUTE)),
    )
    yesterday = FOUR - 1440 * MINUTE
    served = Snapshot(
        "00000000-0000-4000-8000-000000000002", SnapshotState.PUBLISHED, yesterday, yesterday, published_at=yesterday
    )
    log = LatenessLog(time(4))
    with structlog.testing.capture_logs() as lines:
        for minutes in (-10.0, 0.0, 0.5, 1.0, 2.0):
            log.update(assess_freshness(served, [running], FOUR + minutes * MINUTE, time(4)))
    assert [line["event"] for line in lines] == ["files.will_be_late", "files.late"]
