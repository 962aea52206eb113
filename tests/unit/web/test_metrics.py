"""Counters that hold nothing a client can make up."""

from daybreak.web.metrics import Metrics


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
