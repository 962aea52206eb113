"""What the log says of lateness: each thing once, when it begins."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
import structlog.testing

from daybreak.domain.snapshot import Freshness
from daybreak.snapshots.lateness import LatenessLog

FOUR = datetime(2026, 11, 20, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def told() -> list[Any]:
    log = LatenessLog(time(4))
    making = "Today's snapshot is still being made"
    looks = [
        (FOUR - 20 * MINUTE, Freshness(None, FOUR, late=False)),
        (FOUR - 10 * MINUTE, Freshness(None, FOUR + 20 * MINUTE, late=False)),
        (FOUR - 9 * MINUTE, Freshness(None, FOUR + 21 * MINUTE, late=False)),
        (FOUR + 2 * MINUTE, Freshness(None, FOUR + 21 * MINUTE, late=True, reason=f"{making} (60% done).")),
        (FOUR + 3 * MINUTE, Freshness(None, FOUR + 21 * MINUTE, late=True, reason=f"{making} (65% done).")),
        (FOUR + 4 * MINUTE, Freshness(None, FOUR + 1440 * MINUTE, late=True, reason="It failed.")),
        (FOUR + 9 * MINUTE, Freshness(None, FOUR + 1440 * MINUTE, late=False)),
        (FOUR + 10 * MINUTE, Freshness(None, FOUR + 1440 * MINUTE, late=False)),
    ]
    with structlog.testing.capture_logs() as lines:
        for now, fresh in looks:
            log.tell(fresh, now)
    return lines


def test_lateness_is_foretold_said_and_taken_back_once_each(told: list[Any]) -> None:
    assert [line["event"] for line in told] == ["files.will_be_late", "files.late", "files.late", "files.fresh"]
    assert told[0]["expected_at"] == (FOUR + 20 * MINUTE).isoformat()
    assert told[1]["log_level"] == "warning"
    assert told[2]["reason"] == "It failed."
