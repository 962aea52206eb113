"""Progress of a run, estimated from an earlier one."""

from datetime import UTC, datetime

from msgspec import UNSET

from daybreak.domain.run_report import ResourceFigures, RunReport
from daybreak.snapshots.progress import Progress

NOW = datetime(2026, 11, 20, 3, tzinfo=UTC)
EARLIER = RunReport(seconds=10.0, resources={"members": ResourceFigures(rows=100, seconds=6.0)})


def test_share_follows_rows_and_is_one_at_the_end() -> None:
    progress = Progress(("members",), EARLIER, lambda: NOW, iter([0.0, *[5.0] * 9]).__next__)
    progress.enter_phase("members")
    shares = []
    for rows in (0, 50, 1000):
        progress.rows_done(rows)
        shares.append(progress.read().share)
    assert shares == [0.0, 0.3, 0.6]
    progress.enter_phase("verifying")
    assert progress.read().share == 0.6
    progress.enter_phase("complete")
    found = progress.read()
    assert (found.share, found.seconds_left, found.expected_end) == (1.0, 0, NOW)


def test_nothing_is_estimated_without_an_earlier_run() -> None:
    progress = Progress(("members",), RunReport(), lambda: NOW, lambda: 5.0)
    progress.enter_phase("complete")
    assert progress.read().share is UNSET
