"""Progress of a run, estimated from an earlier one."""

from __future__ import annotations

from datetime import UTC, datetime

from daybreak.snapshots.progress import Progress

NOW = datetime(2026, 11, 20, 3, tzinfo=UTC)
EARLIER = {"seconds": 10.0, "resources": {"members": {"rows": 100, "seconds": 6.0}}}


def test_share_follows_rows_and_is_one_at_the_end() -> None:
    progress = Progress(("members",), EARLIER, lambda: NOW, iter([0.0, *[5.0] * 9]).__next__)
    progress.begin_resource("members")
    shares = []
    for rows in (0, 50, 1000):
        progress.rows_done(rows)
        shares.append(progress.as_json()["share"])
    assert shares == [0.0, 0.3, 0.6]
    progress.enter_phase("verifying")
    assert progress.as_json()["share"] == 0.6
    progress.enter_phase("complete")
    found = progress.as_json()
    assert (found["share"], found["seconds_left"], found["expected_end"]) == (1.0, 0, NOW.isoformat())


def test_nothing_is_estimated_without_an_earlier_run() -> None:
    progress = Progress(("members",), {}, lambda: NOW, lambda: 5.0)
    progress.enter_phase("complete")
    assert "share" not in progress.as_json()
