"""Text of the freshness panel."""

from datetime import UTC, datetime, timedelta

import pytest

from daybreak.domain.snapshot import Freshness, PublicationState, Snapshot, SnapshotState
from daybreak.web.dashboard.freshness.view import FreshnessView, freshness_view

# A Wednesday.
NOW = datetime(2026, 11, 25, 17, 47, tzinfo=UTC)
DUE = NOW.replace(hour=4, minute=0)


def _snapshot(published_at: datetime) -> Snapshot:
    as_of = published_at - timedelta(minutes=48)
    return Snapshot("s", SnapshotState.PUBLISHED, as_of, as_of, published_at=published_at)


def _late(
    state: PublicationState, *, published_at: datetime | None = DUE - timedelta(days=2), **more: object
) -> FreshnessView:
    snapshot = _snapshot(published_at) if published_at is not None else None
    late_since = DUE if snapshot is None else min(DUE, snapshot.published_at + timedelta(days=1))  # type: ignore[operator]
    values: dict[str, object] = {"late": True, "state": state, "late_since": late_since, **more}
    return freshness_view(Freshness(snapshot, NOW + timedelta(hours=1), **values), NOW)  # type: ignore[arg-type]


def test_headline_shows_the_instant_of_the_files() -> None:
    fresh = Freshness(_snapshot(DUE), DUE + timedelta(days=1), late=False)
    view = freshness_view(fresh, NOW)
    assert (view.headline, view.tag, view.text) == ("As of today, 03:12 UTC", "Up to date", "")
    assert (view.alert, view.favicon) == ("", "favicon.svg")
    assert fresh.snapshot is not None
    assert view.facts == (
        ("Published", "today, 04:00 UTC", fresh.snapshot.published_at),
        ("Next files", "in 10 h 13 min (04:00 UTC)", fresh.next_expected_at),
    )
    assert view.as_of == fresh.snapshot.as_of


def test_late_files_say_how_late_and_how_old() -> None:
    view = _late(PublicationState.LATE, reason="The run for today's files has not started.")
    assert view.headline == "Late by 37 h 47 min"
    assert view.text == "You see Monday's data (2 days old). The run for today's files has not started."
    assert (view.alert, view.favicon) == ("Late", "favicon-late.svg")
    assert [label for label, _, _ in view.facts] == ["As of", "Published"]
    assert view.facts[0][1] == "23 Nov, 03:12 UTC"


def test_failed_run_shows_the_next_attempt() -> None:
    view = _late(PublicationState.FAILED, next_attempt_at=NOW + timedelta(minutes=5))
    assert view.headline == "Today's files failed to build"
    assert view.text == "Late by 37 h 47 min. You see Monday's data (2 days old). Next attempt 17:52 UTC."
    assert _late(PublicationState.FAILED).text.endswith("The next attempt starts as soon as possible.")


def test_held_files_wait_for_an_operator() -> None:
    view = _late(PublicationState.HELD)
    assert view.text.endswith("An operator must accept or discard them.")


@pytest.mark.parametrize(
    ("state", "headline"),
    [
        (PublicationState.FIRST_RUN, "The first files are being built"),
        (PublicationState.UNPUBLISHED, "No files published yet"),
        (PublicationState.FAILED, "Today's files failed to build"),
    ],
)
def test_files_that_do_not_exist_have_no_age(state: PublicationState, headline: str) -> None:
    view = _late(state, published_at=None, reason="The first run has not started.")
    assert view.headline == headline
    assert "You see" not in view.text
    assert [label for label, _, _ in view.facts] == ["Expected"]


def test_old_files_are_named_by_their_date() -> None:
    view = _late(PublicationState.LATE, published_at=DUE - timedelta(days=13), reason="")
    assert "You see the data of 12 Nov 2026 (13 days old)." in view.text


def test_earlier_snapshot_raises_no_alert() -> None:
    fresh = Freshness(_snapshot(DUE), DUE + timedelta(days=1), late=False)
    earlier = Snapshot("e", SnapshotState.RETIRED, DUE - timedelta(days=1), DUE, published_at=DUE)
    view = freshness_view(fresh, NOW, selected=earlier)
    assert (view.tag, view.alert, view.headline) == ("Earlier snapshot", "", "As of 24 Nov 2026, 04:00 UTC")
