"""Text of the freshness panel."""

from datetime import UTC, datetime, timedelta

from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.web.dashboard.freshness.view import freshness_view

NOW = datetime(2026, 11, 22, 21, 48, tzinfo=UTC)


def _snapshot(published_at: datetime) -> Snapshot:
    as_of = published_at - timedelta(minutes=48)
    return Snapshot("s", SnapshotState.PUBLISHED, as_of, as_of, published_at=published_at)


def test_headline_shows_the_instant_of_the_files() -> None:
    fresh = Freshness(_snapshot(NOW.replace(hour=4, minute=0)), NOW + timedelta(hours=6, minutes=12), late=False)
    view = freshness_view(fresh, NOW)
    assert view.headline == "As of 03:12 UTC"
    assert view.kind == "good"
    assert fresh.snapshot is not None
    assert view.facts == (
        ("Published", "04:00 UTC", fresh.snapshot.published_at),
        ("Next", "in 6 h 12 min (04:00 UTC)", fresh.next_expected_at),
    )
    assert view.as_of == fresh.snapshot.as_of


def test_late_publication_shows_the_reason() -> None:
    reason = "The files of 04:00 UTC on 2026-11-22 are late: the last run failed and is tried again."
    fresh = Freshness(_snapshot(NOW - timedelta(days=1)), NOW + timedelta(hours=6), late=True, reason=reason)
    view = freshness_view(fresh, NOW)
    assert (view.kind, view.state, view.reason) == ("warn", "Late", reason)
    unpublished = freshness_view(Freshness(None, NOW + timedelta(hours=6), late=True, reason=reason), NOW)
    assert (unpublished.kind, unpublished.reason) == ("bad", reason)
