"""Values as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.web.dashboard import presentation
from daybreak.web.dashboard.freshness_view import freshness_view

NOW = datetime(2026, 11, 22, 21, 48, tzinfo=UTC)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (167_400, "167 kB"),
        (5_000_000_000, "5.0 GB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert presentation.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.02, "20 ms"), (3.2, "3.2 s"), (61, "1 min 1 s"), (3599.9, "1 h"), (22_320, "6 h 12 min"), (259_200, "3 days")],
)
def test_spans(seconds: float, text: str) -> None:
    assert presentation.span(seconds) == text


def test_changes_say_direction_and_share() -> None:
    assert presentation.change(120, 100) == presentation.Change("+20 (+20.0 %)", "up")
    assert presentation.change(0, 8) == presentation.Change("\N{MINUS SIGN}8 (\N{MINUS SIGN}100.0 %)", "down")
    assert presentation.change(5, 0).text == "+5"
    assert presentation.change(5, 5).direction == "same"
    assert presentation.change(5, None).text == "first snapshot"


def test_sparkline_stays_in_its_box() -> None:
    drawn = presentation.sparkline([5, 1_000_000, 0, 7])
    assert drawn is not None
    for point in drawn.line.split():
        x, y = (float(part) for part in point.split(","))
        assert 0 <= x <= 100
        assert 0 <= y <= 30
    assert presentation.sparkline([3]) is None


def test_what_hides_is_made_visible() -> None:
    assert presentation.visible("a\x00b\u202ec\nd") == "a\u2400b\ufffdc\u240ad"


def test_a_name_stands_on_one_line_and_hides_nothing() -> None:
    assert presentation.one_line("Los Angeles\r\nTenants\u2019\tUnion") == "Los Angeles Tenants\u2019 Union"
    assert presentation.one_line("a\x00b\u202ec") == "a\u2400b\ufffdc"


def test_agents_in_words() -> None:
    chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
    assert presentation.agent(chrome) == "Chrome on Linux"
    assert presentation.agent("curl/8.14.1") == "curl/8.14.1"
    assert presentation.agent("") == "Unknown client"


def _snapshot(published_at: datetime) -> Snapshot:
    as_of = published_at - timedelta(minutes=48)
    return Snapshot("s", SnapshotState.PUBLISHED, as_of, as_of, published_at=published_at)


def test_freshness_reads_as_one_line() -> None:
    fresh = Freshness(_snapshot(NOW.replace(hour=4, minute=0)), NOW + timedelta(hours=6, minutes=12), late=False)
    view = freshness_view(fresh, NOW)
    assert view.line == "As of 03:12 UTC"
    assert view.kind == "good"
    assert fresh.snapshot is not None
    assert view.facts == (
        ("published", "04:00 UTC", fresh.snapshot.published_at),
        ("next", "in 6 h 12 min (04:00 UTC)", fresh.next_expected_at),
    )
    assert view.as_of == fresh.snapshot.as_of


def test_late_publication_says_so_and_why() -> None:
    reason = "The files of 04:00 UTC on 2026-11-22 are late: the last run failed and is tried again."
    fresh = Freshness(_snapshot(NOW - timedelta(days=1)), NOW + timedelta(hours=6), late=True, reason=reason)
    view = freshness_view(fresh, NOW)
    assert (view.kind, view.state, view.reason) == ("warn", "Late", reason)
    nothing = freshness_view(Freshness(None, NOW + timedelta(hours=6), late=True, reason=reason), NOW)
    assert (nothing.kind, nothing.reason) == ("bad", reason)
