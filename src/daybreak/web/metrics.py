"""Counters for operators, in the Prometheus text format; added up over all worker processes.

The supervisor sets PROMETHEUS_MULTIPROC_DIR before the workers start, as the client library's
multi-process mode wants it. No label holds anything that a client can make up.
"""

from __future__ import annotations

import os

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    """One worker's counters. Several may live in one process: each has its own registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "daybreak_http_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "daybreak_http_request_seconds",
            "Time to answer, transfer of the body included.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._bytes = Counter(
            "daybreak_http_response_bytes",
            "Octets of bodies promised by Content-Length.",
            ("route",),
            registry=self._registry,
        )
        self._open = Gauge(
            "daybreak_http_requests_open",
            "Requests being answered.",
            multiprocess_mode="livesum",
            registry=self._registry,
        )
        self._kinds: dict[tuple[str, str, int], tuple[Counter, Histogram, Counter]] = {}
        self._events = Counter(
            "daybreak_events",
            "Things that happened: links issued, logins, damaged files.",
            ("event",),
            registry=self._registry,
        )
        self._counted: dict[str, Counter] = {}

    def started(self) -> None:
        """A request came in."""
        self._open.inc()

    def finished(self, route: str, method: str, status: int, length: int, seconds: float) -> None:
        """A request was answered with `status` and a body of `length` octets."""
        self._open.dec()
        named = method if method in _METHODS else "other"
        # Finding a labelled counter costs more than counting: few kinds of requests, so kept.
        kind = (route, named, status)
        counters = self._kinds.get(kind)
        if counters is None:
            counters = self._kinds[kind] = (
                self._requests.labels(route, named, str(status)),
                self._seconds.labels(route),
                self._bytes.labels(route),
            )
        counters[0].inc()
        counters[1].observe(seconds)
        if length:
            counters[2].inc(length)

    def happened(self, event: str) -> None:
        """Counts one event; `event` is a fixed name, never anything a client sent."""
        counter = self._counted.get(event)
        if counter is None:
            counter = self._counted[event] = self._events.labels(event)
        counter.inc()

    def text(self) -> tuple[bytes, str]:
        """The exposition of all workers' counters, and its content type."""
        registry = self._registry
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            together = CollectorRegistry()
            MultiProcessCollector(together)  # type: ignore[no-untyped-call]
            registry = together
        return generate_latest(registry), CONTENT_TYPE_LATEST
