"""Traces, metrics and logs: an OpenTelemetry collector accepts them, and a receiver decodes what it passes on."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from gzip import decompress
from pathlib import Path
from typing import Any

import pytest
import requests
import rotel
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import MAYA, NORTH
from tests.acceptance.service import Service, serving
from tests.parts.ports import free_port, listens
from tests.parts.processes import running
from tests.parts.waiting import wait_until
from tests.parts.warm import daybreakd
from tests.parts.webhook_receiver import Answer, Receiver

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
# The SDK waits seconds before it sends.
FAST = {
    "OTEL_BSP_SCHEDULE_DELAY": "100",
    "OTEL_BLRP_SCHEDULE_DELAY": "100",
    "OTEL_METRIC_EXPORT_INTERVAL": "500",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-collector-key=abc",
}


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiver]:
    """What the collector passes on."""
    with Receiver(lambda _request, _number: Answer(body=b"")).running() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def collector_url(collector: Receiver) -> Iterator[str]:
    """URL of Rotel, a collector that accepts OTLP, decodes it, and sends new batches."""
    port = free_port()
    options = {
        "otlp-http-endpoint": f"127.0.0.1:{port}",
        "otlp-grpc-endpoint": f"127.0.0.1:{free_port()}",
        "exporter": "otlp",
        "otlp-exporter-endpoint": collector.url(""),
        "otlp-exporter-protocol": "http",
    }
    program = Path(rotel.__file__).with_name("rotel-agent")
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    with running([program, "start", *arguments]):
        wait_until(lambda: listens(port), what="the collector")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def traced(collector_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    installation = new_installation(tmp_path_factory.mktemp("traced"))
    sizes = PlatformSizes(leaders=3, members=20, messages=40)
    make_platform(installation.folder / "platform", sizes, seed=1, as_of=datetime.now(UTC))
    settings = {
        "telemetry.url": collector_url,
        "trusted_proxies": ["127.0.0.1/32"],
        "source.location": "platform",
    }
    with serving(installation, workers=1, settings=settings, environment=FAST) as service:
        yield service


def spans(collector: Receiver) -> list[Any]:
    """Return all spans, with the attributes of their process."""
    found = []
    for received in collector.of("/v1/traces"):
        for resource in ExportTraceServiceRequest.FromString(decompress(received.body)).resource_spans:
            for scope in resource.scope_spans:
                found += scope.spans
    return found


def attributes(item: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in item.attributes}


def one(find: Callable[[], list[Any]], what: str) -> Any:
    wait_until(lambda: len(find()) > 0, what=what)
    (found,) = find()
    return found


@pytest.mark.release
def test_request_continues_the_trace_of_a_trusted_proxy(traced: Service, collector: Receiver) -> None:
    token = traced.token(MAYA, NORTH)
    path = f"/download/v1/files/{NORTH}/campaigns.csv.gz"
    sent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert traced.get(path, token=token, headers=sent, allow_redirects=False).status_code == 302
    span = one(lambda: [each for each in spans(collector) if each.trace_id.hex() == TRACE], "the span")
    assert span.parent_span_id.hex() == PARENT
    found = attributes(span)
    assert span.name == f"GET {found['http.route']}"
    assert "{client_id}" in found["http.route"]
    assert (found["http.request.method"], found["http.response.status_code"]) == ("GET", 302)
    assert found["daybreak.request_id"]
    for secret in (token, NORTH, MAYA):
        assert not [received for received in collector.of("/v1/traces") if secret.encode() in decompress(received.body)]


@pytest.mark.release
def test_malformed_trace_begins_a_new_one(traced: Service, collector: Receiver) -> None:
    before = {span.span_id for span in spans(collector)}
    for sent in ("00-zz-1-01", f"00-{'0' * 32}-{PARENT}-01", "x" * 300):
        assert traced.get("/healthz", headers={"traceparent": sent}).status_code == 200

    def new() -> list[Any]:
        return [each for each in spans(collector) if each.name == "GET /healthz" and each.span_id not in before]

    wait_until(lambda: len(new()) >= 3, what="three spans")
    assert not any(span.parent_span_id for span in new())


def test_metrics_equal_those_of_prometheus(traced: Service, collector: Receiver) -> None:
    traced.get("/healthz")

    def last() -> dict[str, Any]:
        received = collector.of("/v1/metrics")
        if not received:
            return {}
        (resource,) = ExportMetricsServiceRequest.FromString(decompress(received[-1].body)).resource_metrics
        return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}

    def count() -> int:
        metric = last().get("daybreak_http_requests")
        points = metric.sum.data_points if metric is not None else []
        return sum(int(p.as_double) for p in points if attributes(p)["route"] == "/healthz")

    wait_until(lambda: count() >= 1, what="the count of requests")
    families = {family.name: family for family in text_string_to_metric_families(traced.metrics())}
    found = last()
    assert {name for name in families if name.startswith("daybreak_")} == {
        name for name in found if name.startswith("daybreak_")
    }
    assert found["daybreak_http_requests"].sum.is_monotonic
    histogram = found["daybreak_http_request_seconds"].histogram.data_points[0]
    assert sum(histogram.bucket_counts) == histogram.count > 0
    assert len(histogram.explicit_bounds) == len(histogram.bucket_counts) - 1


def test_log_lines_are_sent(traced: Service, collector: Receiver) -> None:
    asked = traced.get("/healthz").headers["X-Request-Id"]

    def lines() -> list[Any]:
        requests_ = [ExportLogsServiceRequest.FromString(decompress(each.body)) for each in collector.of("/v1/logs")]
        records = [
            record
            for request in requests_
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]
        return [record for record in records if attributes(record).get("request_id") == asked]

    record = one(lines, "the line of the request")
    (line,) = [each for each in traced.log_lines() if each.get("request_id") == asked]
    assert record.body.string_value == line["event"] == "request"
    assert record.severity_text == line["level"]
    assert attributes(record)["status"] == 200


def test_run_is_a_trace_of_its_phases(traced: Service, collector: Receiver) -> None:
    config = traced.installation.folder / "daybreak.toml"
    done = daybreakd("snapshot", "run", "--config", str(config), environment=FAST)
    assert done.returncode == 0, done.stderr
    root = one(lambda: [each for each in spans(collector) if each.name == "run"], "the run")
    found = attributes(root)
    assert root.trace_id.hex() == found["daybreak.snapshot_id"].replace("-", "")
    shown = daybreakd("snapshot", "show", found["daybreak.snapshot_id"], "--config", str(config), "--json")
    report = json.loads(shown.stdout)["report"]
    assert (found["daybreak.rows"], found["daybreak.leaders"]) == (report["rows"], report["leaders"])
    phases = {each.name: each for each in spans(collector) if each.parent_span_id == root.span_id}
    assert set(phases) >= {*RESOURCE_NAMES, "opening", "accounting", "verifying"}
    for each in phases.values():
        assert root.start_time_unix_nano <= each.start_time_unix_nano <= each.end_time_unix_nano
        assert each.end_time_unix_nano <= root.end_time_unix_nano
    for name in RESOURCE_NAMES:
        assert attributes(phases[name])["daybreak.rows"] == report["resources"][name]["rows"]


@pytest.mark.release
def test_service_works_without_a_collector(tmp_path: Path) -> None:
    settings = {"telemetry.url": "http://127.0.0.1:9"}
    with serving(new_installation(tmp_path), workers=1, settings=settings, environment=FAST) as service:
        assert requests.get(f"{service.address}/healthz", timeout=60).status_code == 200
        assert service.request_file(service.token(MAYA, NORTH), NORTH).status_code == 302


@pytest.mark.release
def test_headers_are_sent_to_the_collector(tmp_path: Path) -> None:
    paths = ("/v1/traces", "/v1/metrics", "/v1/logs")
    with Receiver().running() as receiver:
        settings = {"telemetry.url": receiver.url("")}
        with serving(new_installation(tmp_path), workers=1, settings=settings, environment=FAST) as service:
            assert requests.get(f"{service.address}/healthz", timeout=60).status_code == 200
            received = [receiver.wait_for(1, path)[0] for path in paths]
    assert [each.headers["x-collector-key"] for each in received] == ["abc"] * 3
