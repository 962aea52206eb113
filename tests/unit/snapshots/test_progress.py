"""How far a run says it is, by the time that an earlier one took."""

from __future__ import annotations

from datetime import UTC, datetime

from daybreak.snapshots.progress import Progress

NOW = datetime(2026, 11, 20, 3, tzinfo=UTC)
EARLIER = {"seconds": 10.0, "resources": {"members": {"rows": 100, "seconds": 6.0}}}


def test_the_share_follows_rows_and_is_whole_only_at_the_end() -> None:
    progress = Progress(("members",), EARLIER, lambda: NOW, iter([0.0, *[5.0] * 9]).__next__)
    progress.begin("members")
    shares = []
    for rows in (0, 50, 1000):
        progress.reach(rows)
        shares.append(progress.as_json()["share"])
    assert shares == [0.0, 0.3, 0.6]
    progress.enter("verifying")
    assert progress.as_json()["share"] == 0.6
    progress.enter("complete")
    told = progress.as_json()
    assert (told["share"], told["seconds_left"], told["expected_end"]) == (1.0, 0, NOW.isoformat())


def test_without_an_earlier_run_nothing_is_foretold() -> None:
    progress = Progress(("members",), {}, lambda: NOW, lambda: 5.0)
    progress.enter("complete")
    assert "share" not in progress.as_json()
