"""Traces and logs for OpenTelemetry, sent by OTLP over HTTP; the only module that knows its SDK, but for metrics.

It is imported only if `telemetry.url` is set. Spans contain routes, phases, counts and ids of requests and snapshots:
no path, address, name or row. The SDK reads its own variables too, such as OTEL_EXPORTER_OTLP_HEADERS.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

import daybreak
from daybreak.domain.errors import OperatorError
from daybreak.domain.snapshot import Snapshot, SnapshotState

try:
    # The SDK publishes logs under names with an underscore until their specification is final.
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, TraceFlags, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise OperatorError(
        f"telemetry.url is set, but {error.name} is not installed. Run `pip install opentelemetry-sdk "
        "opentelemetry-exporter-otlp-proto-http`, or remove the setting."
    ) from None

if TYPE_CHECKING:
    from daybreak.domain.events import Delivery
    from daybreak.domain.run_report import RunReport
    from daybreak.settings import Settings

_SPAN_BITS = (1 << 64) - 1
_NANOSECONDS = 1_000_000_000
_FIRST_CLIENT_ERROR, _FIRST_SERVER_ERROR = 400, 500
_PROPAGATOR = TraceContextTextMapPropagator()
_SEVERITIES = {
    "debug": SeverityNumber.DEBUG,
    "info": SeverityNumber.INFO,
    "warning": SeverityNumber.WARN,
    "error": SeverityNumber.ERROR,
    "critical": SeverityNumber.FATAL,
}
_run_id: ContextVar[UUID | None] = ContextVar("_run_id", default=None)


def resource_of(process: str) -> Resource:
    """Return what describes this process: `web`, `builder` or `metrics`."""
    return Resource.create(
        {
            "service.name": os.environ.get("OTEL_SERVICE_NAME", "daybreak"),
            "service.version": daybreak.__version__,
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
            "daybreak.process": process,
        }
    )


class _Ids(RandomIdGenerator):
    """Random ids, but a run has those of its snapshot, so that other processes can link to it."""

    def generate_trace_id(self) -> int:
        run = _run_id.get()
        return super().generate_trace_id() if run is None else run.int

    def generate_span_id(self) -> int:
        run = _run_id.get()
        return super().generate_span_id() if run is None else run.int & _SPAN_BITS


@dataclass
class DeliveryAttempt:
    """An attempt to deliver a webhook: the headers that pass the trace on, and the status of the response."""

    headers: dict[str, str] = field(default_factory=dict)
    status: int | None = None


class Tracing:
    """The traces of one process. A thread sends them in batches; `close` sends the rest."""

    def __init__(self, settings: "Settings", process: str) -> None:
        telemetry = settings.telemetry
        self._processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{telemetry.url}/v1/traces"))
        self._resource = resource_of(process)
        self._tracer = self._new_tracer(ParentBased(TraceIdRatioBased(telemetry.request_share)))
        self._runs = self._new_tracer(ALWAYS_ON)

    def _new_tracer(self, sampler: Sampler) -> Any:
        provider = TracerProvider(sampler=sampler, resource=self._resource, id_generator=_Ids(), shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        return provider.get_tracer("daybreak", daybreak.__version__)

    def close(self) -> None:
        """Send what has not been sent yet."""
        self._processor.shutdown()  # type: ignore[no-untyped-call]

    def begin_request(self, method: str, request_id: str, traceparent: str | None) -> Span:
        """Begin the span of a request, for `end_request`. `traceparent` is the header that a trusted proxy sent."""
        # The SDK ignores a malformed header.
        context = _PROPAGATOR.extract({} if traceparent is None else {"traceparent": traceparent})
        attributes = {"http.request.method": method, "daybreak.request_id": request_id}
        span: Span = self._tracer.start_span(method, context, SpanKind.SERVER, attributes)
        return span

    def end_request(self, span: Span, method: str, route: str, status: int) -> None:
        """End the span of a request. `route` is the path pattern, `status` 0 if no response began."""
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
        _end(span, status, first_error=_FIRST_SERVER_ERROR)

    def add_run(self, run: Snapshot, report: "RunReport", ended_at: datetime) -> None:
        """Add a run that has ended: a span, and one below it for each phase and resource."""
        token = _run_id.set(UUID(run.snapshot_id))
        try:
            root: Span = self._runs.start_span("run", start_time=_nanoseconds(run.started_at))
        finally:
            _run_id.reset(token)
        root.set_attributes(
            {
                "daybreak.snapshot_id": run.snapshot_id,
                "daybreak.state": run.state.value,
                "daybreak.engine": report.engine,
                "daybreak.leaders": report.leaders or 0,
                "daybreak.rows": report.rows or 0,
                "daybreak.files": report.files or 0,
                "daybreak.bytes": report.bytes or 0,
            }
        )
        if run.state is SnapshotState.FAILED:
            root.set_attribute("error.type", report.code or "run_failed")
            root.set_status(StatusCode.ERROR)
        self._add_phases(root, run, report, ended_at)
        root.end(_nanoseconds(ended_at))

    def _add_phases(self, root: Span, run: Snapshot, report: "RunReport", ended_at: datetime) -> None:
        started, ended = _nanoseconds(run.started_at), _nanoseconds(ended_at)
        begun = [(name, started + int(seconds * _NANOSECONDS)) for name, seconds in (report.phases or {}).items()]
        for (name, begin), (_, end) in pairwise([*begun, ("", ended)]):
            if name == "complete":
                continue
            span = self._runs.start_span(name, set_span_in_context(root), start_time=begin)
            figures = report.by_resource.get(name)
            if figures is not None:
                span.set_attributes({"daybreak.resource": name, "daybreak.rows": figures.rows})
            span.end(max(begin, min(end, ended)))

    @contextmanager
    def delivery(self, delivery: "Delivery") -> Iterator[DeliveryAttempt]:
        """Trace an attempt to deliver a webhook."""
        name, links = f"webhook {delivery.type.value}", _links_to_run(delivery)
        span: Span = self._tracer.start_span(name, kind=SpanKind.CLIENT, links=links)
        attempt = DeliveryAttempt()
        _PROPAGATOR.inject(attempt.headers, set_span_in_context(span))
        try:
            yield attempt
        finally:
            _end(span, attempt.status, first_error=_FIRST_CLIENT_ERROR)


def _end(span: Span, status: int | None, first_error: int) -> None:
    """End the span of a request or a delivery. `status` is the HTTP status, None or 0 without a response."""
    if status:
        span.set_attribute("http.response.status_code", status)
    if not status or status >= first_error:
        span.set_status(StatusCode.ERROR)
    span.end()


def _links_to_run(delivery: "Delivery") -> list[Link]:
    """Return a link to the run that the message is about, if there is one."""
    snapshot_id = msgspec.json.decode(delivery.body).get("data", {}).get("snapshot_id")
    if not isinstance(snapshot_id, str):
        return []
    run = UUID(snapshot_id)
    return [Link(SpanContext(run.int, run.int & _SPAN_BITS, is_remote=True, trace_flags=TraceFlags(1)))]


def _nanoseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000_000) * 1000


class LogSender:
    """Sends the events of the log, which contain no secret, in batches."""

    def __init__(self, settings: "Settings", process: str) -> None:
        provider = LoggerProvider(resource_of(process), shutdown_on_exit=True)
        exporter = OTLPLogExporter(endpoint=f"{settings.telemetry.url}/v1/logs")
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
        self._logger = provider.get_logger("daybreak", daybreak.__version__)

    def send(self, at: datetime, level: str, event: str, fields: Mapping[str, Any]) -> None:
        """Send an event. Fields have the values that they have in JSON."""
        attributes = {
            name: value if isinstance(value, str | bool | int | float) else str(value)
            for name, value in msgspec.to_builtins(fields, enc_hook=repr).items()
            if value is not None
        }
        self._logger.emit(
            LogRecord(
                timestamp=_nanoseconds(at),
                severity_text=level,
                severity_number=_SEVERITIES[level],
                body=event,
                attributes=attributes,
            )
        )
