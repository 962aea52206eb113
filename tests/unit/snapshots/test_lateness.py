"""What the log says of lateness: each thing once, when it begins."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from daybreak.domain.snapshot import Freshness
from daybreak.ports.log import log as service_log
from daybreak.snapshots.lateness import LatenessLog

FOUR = datetime(2026, 11, 20, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
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
    lines: list[Any] = []
    monkeypatch.setattr(service_log, "tell", lambda level, event, fields: lines.append((level, event, fields)))
    for now, fresh in looks:
        log.tell(fresh, now)
    return lines


def test_lateness_is_foretold_said_and_taken_back_once_each(told: list[Any]) -> None:
    assert [(level, event) for level, event, _ in told] == [
        ("warning", "files.will_be_late"),
        ("warning", "files.late"),
        ("warning", "files.late"),
        ("info", "files.fresh"),
    ]
    assert told[0][2]["expected_at"] == (FOUR + 20 * MINUTE).isoformat()
    assert told[2][2]["reason"] == "It failed."
