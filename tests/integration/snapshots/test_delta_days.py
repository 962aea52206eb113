"""Deltas of simulated days: each day and random pairs of days, compared with plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.parts.daily_runs import DailyRuns
from tests.reference.days import ChangingPlatform

DAYS = 10
PAIRS = 300


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory, empty_state: Path) -> Iterator[DailyRuns]:
    """Return the runs of ten days."""
    folder = tmp_path_factory.mktemp("days")
    (folder / "state.db").write_bytes(empty_state.read_bytes())
    with closing(DailyRuns(folder, ChangingPlatform(3, members=240))) as found:
        for day in range(DAYS):
            if day:
                found.platform.next_day()
            found.run()
        yield found


def test_deltas_of_each_day_are_those_of_the_reference(days: DailyRuns) -> None:
    for version in range(2, DAYS + 1):
        days.check_day(version)
    assert days.states["changed"] > 30
    assert set(days.states) <= {"changed", "larger_than_full"}


def test_deltas_lead_from_any_day_to_any_later_day(days: DailyRuns) -> None:
    assert days.check_pairs(PAIRS) > PAIRS
