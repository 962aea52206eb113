"""Deltas of simulated days: each day and random pairs of days, compared with plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daybreak.snapshots.verify_deltas import verify_deltas
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


def test_chain_is_proven_again_until_a_delta_is_damaged(days: DailyRuns) -> None:
    state, store = days.context.state, days.context.store
    proven = verify_deltas(state, store)
    assert proven.faults == ()
    assert (proven.versions, proven.deltas) == (DAYS - 1, len(days.deltas))
    assert proven.compared == len(days.contents)
    key, delta = next((key, delta) for key, delta in days.deltas.items() if delta.formats)
    path = days.folder / "files" / delta.formats["csv"].key
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    (fault,) = verify_deltas(state, store).faults
    assert (fault.version, fault.client_id, fault.resource) == key
    path.write_bytes(content)


def test_deltas_lead_from_any_day_to_any_later_day(days: DailyRuns) -> None:
    assert days.check_pairs(PAIRS) > PAIRS
