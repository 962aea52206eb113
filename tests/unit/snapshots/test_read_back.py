"""Which files a run reads back."""

from datetime import UTC, datetime, timedelta

import pytest

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.verify import REUSED_SAMPLE_INTERVAL, SAMPLE_INTERVAL, is_read_back
from tests.small_platform import leader_ids

LEADERS = leader_ids(300)


def on_day(day: int) -> Snapshot:
    as_of = datetime(2026, 11, 20, tzinfo=UTC) + timedelta(days=day)
    return Snapshot(snapshot_id=LEADERS[0], state=SnapshotState.BUILDING, as_of=as_of, started_at=as_of)


@pytest.mark.parametrize("read_all", [True, False])
def test_each_reused_file_is_read_back_once_a_week(read_all: bool) -> None:
    days = [is_read_back(on_day(day), set(LEADERS), read_all=read_all) for day in range(REUSED_SAMPLE_INTERVAL)]
    assert {sum(is_included(leader) for is_included in days) for leader in LEADERS} == {1}


def test_new_files_are_read_back_whole_or_as_a_sample() -> None:
    assert all(map(is_read_back(on_day(0), (), read_all=True), LEADERS))
    sample = is_read_back(on_day(0), (), read_all=False)
    assert 0 < sum(map(sample, LEADERS)) < 3 * len(LEADERS) / SAMPLE_INTERVAL
    assert sample(""), "all Leaders without rows share these files"
