"""The metrics of Prometheus, sent by OTLP."""

import time
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric
from prometheus_client.samples import Sample

import daybreak
from daybreak.settings import Settings
from daybreak.telemetry import resource_of


class MetricsSender:
    """Sends metrics, with the names and labels that Prometheus would read."""

    def __init__(self, settings: Settings) -> None:
        self._exporter = OTLPMetricExporter(endpoint=f"{settings.telemetry.url}/v1/metrics")
        self._resource = resource_of("metrics")
        self._since = time.time_ns()

    def send(self, families: Iterable[Metric]) -> None:
        """Send the present values. A failure is logged."""
        now = time.time_ns()
        metrics = [export.Metric(each.name, each.documentation, "", self._data(each, now)) for each in families]
        scope = export.ScopeMetrics(InstrumentationScope("daybreak", daybreak.__version__), metrics, "")
        self._exporter.export(export.MetricsData([export.ResourceMetrics(self._resource, [scope], "")]))

    def _data(self, family: Metric, now: int) -> export.Sum | export.Gauge | export.Histogram:
        total = export.AggregationTemporality.CUMULATIVE
        if family.type == "histogram":
            return export.Histogram(list(self._histograms(family, now)), total)
        points = [
            export.NumberDataPoint(sample.labels, self._since, now, float(sample.value))
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]
        if family.type == "counter":
            return export.Sum(points, total, is_monotonic=True)
        return export.Gauge(points)

    def _histograms(self, family: Metric, now: int) -> Iterator[export.HistogramDataPoint]:
        """Return the histogram of each set of labels. Buckets of Prometheus contain those before them."""
        ordered = sorted(family.samples, key=_labels)
        for labels, group in groupby(ordered, _labels):
            samples = list(group)
            value = {sample.name.removeprefix(family.name): sample.value for sample in samples}
            buckets = sorted((float(s.labels["le"]), s.value) for s in samples if "le" in s.labels)
            totals = [0.0, *(total for _, total in buckets)]
            counts = [int(after - before) for before, after in pairwise(totals)]
            bounds = [bound for bound, _ in buckets[:-1]]
            yield export.HistogramDataPoint(
                dict(labels), self._since, now, sum(counts), value["_sum"], counts, bounds, 0.0, 0.0
            )


def _labels(sample: Sample) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
