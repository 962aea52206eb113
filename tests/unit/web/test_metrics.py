"""Counters that hold nothing a client can make up."""

from datetime import UTC, datetime

from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.web.metrics import Metrics, freshness_text


def test_requests_are_counted_by_route_method_and_status() -> None:
    metrics = Metrics()
    for method, status in (("GET", 200), ("GET", 200), ("BREW", 405)):
        metrics.started()
        metrics.finished("/healthz", method, status, 10, 0.002)
    metrics.started()
    metrics.happened("link_issued")
    metrics.carry()
    text, content_type = metrics.text()
    lines = text.decode().splitlines()
    assert content_type.startswith("text/plain")
    assert 'daybreak_http_requests_total{method="GET",route="/healthz",status="200"} 2.0' in lines
    assert 'daybreak_http_requests_total{method="other",route="/healthz",status="405"} 1.0' in lines
    assert 'daybreak_http_request_seconds_bucket{le="0.0025",route="/healthz"} 3.0' in lines
    assert 'daybreak_http_request_seconds_sum{route="/healthz"} 0.006' in lines
    assert 'daybreak_http_request_seconds_count{route="/healthz"} 3.0' in lines
    assert 'daybreak_http_response_bytes_total{route="/healthz"} 30.0' in lines
    assert "daybreak_http_requests_open 1.0" in lines
    assert 'daybreak_events_total{event="link_issued"} 1.0' in lines
    assert b"BREW" not in text


def test_freshness_before_the_first_files_and_late_ones() -> None:
    hour = datetime(2026, 11, 22, 4, tzinfo=UTC)
    none = freshness_text(Freshness(snapshot=None, next_expected_at=hour, late=False)).decode().splitlines()
    assert "daybreak_files_late 0.0" in none
    assert "daybreak_files_as_of_timestamp_seconds 0.0" in none
    served = Snapshot("one", SnapshotState.PUBLISHED, as_of=datetime(1970, 1, 1, 0, 1, tzinfo=UTC), started_at=hour)
    late = freshness_text(Freshness(served, hour, late=True, reason="It failed.")).decode().splitlines()
    assert "daybreak_files_late 1.0" in late
    assert "daybreak_files_as_of_timestamp_seconds 60.0" in late
