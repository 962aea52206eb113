"""Counters for operators, in the Prometheus text format; added up over all worker processes.

The supervisor sets PROMETHEUS_MULTIPROC_DIR before the workers start, as the client library's
multi-process mode wants it. No label holds anything that a client can make up.

Requests are counted in plain numbers, which `carry` brings to the library's values once a second: each of those is a
place in a file, and changing a handful of them costs more than the rest of the account of a request.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter as Numbers
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from daybreak.domain.snapshot import Freshness

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class _FreshnessGauges(Collector):
    """What the state database says at the scrape: the same from every worker, so that nothing is added up."""

    def __init__(self, fresh: Freshness) -> None:
        self._fresh = fresh

    def collect(self) -> Iterator[GaugeMetricFamily]:
        served = self._fresh.snapshot
        yield GaugeMetricFamily("daybreak_files_late", "1 when files that are due are not out.", self._fresh.late)
        yield GaugeMetricFamily(
            "daybreak_files_as_of_timestamp_seconds",
            "Instant that the served files show; 0 before the first.",
            served.as_of.timestamp() if served is not None else 0,
        )


def freshness_text(fresh: Freshness) -> bytes:
    """How fresh the files are, in the same format as `Metrics.text`."""
    registry = CollectorRegistry()
    registry.register(_FreshnessGauges(fresh))
    return generate_latest(registry)


@dataclass(slots=True)
class _Tally:
    """Requests of one route, method and status since they were carried last."""

    requests: int = 0
    length: int = 0
    seconds: float = 0.0
    in_bucket: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))


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
        self._events = Counter(
            "daybreak_events",
            "Links issued, and files that could not be served, by why.",
            ("event",),
            registry=self._registry,
        )
        self._open_now = 0
        self._tallies: dict[tuple[str, str, int], _Tally] = {}
        self._happened: Numbers[str] = Numbers()

    def started(self) -> None:
        """A request came in."""
        self._open_now += 1

    def finished(self, route: str, method: str, status: int, length: int, seconds: float) -> None:
        """A request was answered with `status` and a body of `length` octets."""
        self._open_now -= 1
        kind = (route, method if method in _METHODS else "other", status)
        tally = self._tallies.get(kind)
        if tally is None:
            tally = self._tallies[kind] = _Tally()
        tally.requests += 1
        tally.length += length
        tally.seconds += seconds
        tally.in_bucket[bisect_left(_BUCKETS, seconds)] += 1

    def happened(self, event: str) -> None:
        """Counts one event; `event` is a fixed name, never anything a client sent."""
        self._happened[event] += 1

    def carry(self) -> None:
        """Brings what was counted to where every worker's scrape sees it."""
        tallies, self._tallies = self._tallies, {}
        for (route, method, status), tally in tallies.items():
            self._requests.labels(route, method, str(status)).inc(tally.requests)
            self._bytes.labels(route).inc(tally.length)
            histogram = self._seconds.labels(route)
            # The library's own `observe` takes one value at a time.
            histogram._sum.inc(tally.seconds)  # noqa: SLF001
            for bucket, count in zip(histogram._buckets, tally.in_bucket, strict=True):  # noqa: SLF001
                if count:
                    bucket.inc(count)
        happened, self._happened = self._happened, Numbers()
        for event, count in happened.items():
            self._events.labels(event).inc(count)
        self._open.set(self._open_now)

    def text(self) -> tuple[bytes, str]:
        """The exposition of all workers' counters, and its content type: of this worker as they are, of the others as
        they carried them last."""
        self.carry()
        registry = self._registry
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            together = CollectorRegistry()
            MultiProcessCollector(together)  # type: ignore[no-untyped-call]
            registry = together
        return generate_latest(registry), CONTENT_TYPE_LATEST
