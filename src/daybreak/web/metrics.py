"""The service's Prometheus metrics. No label contains text that a client sent.

With several workers the client library runs in its multiprocess mode: the command line sets PROMETHEUS_MULTIPROC_DIR
before this module is imported.
"""

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("daybreak_http_requests", "Requests answered.", ("door", "route", "method", "status"))
REQUEST_SECONDS = Histogram(
    "daybreak_http_request_seconds",
    "Time to answer, including the transfer of the body.",
    ("route",),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
)
RESPONSE_BYTES = Counter("daybreak_http_response_bytes", "Body bytes announced by Content-Length.", ("door", "route"))
OPEN_REQUESTS = Gauge("daybreak_http_requests_open", "Requests being answered.", multiprocess_mode="livesum")
REFUSALS = Counter("daybreak_http_refusals", "Requests refused, by error code.", ("code",))
QUEUE_LENGTH = Gauge(
    "daybreak_queue_length", "Work that waits in the web workers.", ("queue",), multiprocess_mode="livesum"
)
EVENTS = Counter("daybreak_events", "Links issued, and files not served, by error code.", ("event",))


def count_event(event: str) -> None:
    """Count an event. `event` is a fixed name or an error code."""
    EVENTS.labels(event).inc()
