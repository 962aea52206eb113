"""The metrics of all workers, on a separate listener."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from daybreak.settings import Settings
from daybreak.web.listener import TcpAddress
from daybreak.web.metrics_state import ReadValues, StateMetrics

_PARENT_POLL_SECONDS = 1.0


def serve_metrics(
    address: TcpAddress | None, folder: Path, read_values: ReadValues, main_pid: int, settings: Settings
) -> None:
    """Serve and send metrics until SIGTERM, or until the main process has ended. Runs in a separate process.

    Args:
        address: Where to listen, None to serve no metrics.
        folder: Where the workers write their metrics (PROMETHEUS_MULTIPROC_DIR).
        read_values: Reads the values of the metrics of the state database.
        main_pid: The process id of the main process.
        settings: With `telemetry.url`, metrics are sent once a minute, or as OTEL_METRIC_EXPORT_INTERVAL says.
    """
    # Ctrl-C reaches every process; the main process then sends SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    registry = CollectorRegistry()
    registry.register(WorkerMetrics(folder))
    registry.register(StateMetrics(read_values))
    if address is not None:
        start_http_server(address.port, address.host, registry)
    sender = None
    if settings.telemetry.url:
        # The module needs packages that only telemetry needs.
        from daybreak.web.otlp_metrics import MetricsSender

        sender = MetricsSender(settings)
    # The variable of the SDK, in milliseconds.
    interval = int(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "60000")) / 1000
    pause, due = threading.Event(), time.monotonic() + interval
    while os.getppid() == main_pid:
        pause.wait(_PARENT_POLL_SECONDS)
        if sender is not None and time.monotonic() >= due:
            sender.send(registry.collect())
            due = time.monotonic() + interval


class WorkerMetrics(Collector):
    """Metrics summed over all workers, ended ones included."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        for pid in {int(path.stem.rpartition("_")[2]) for path in self._folder.glob("gauge_live*.db")}:
            if not _is_alive(pid):
                mark_process_dead(pid, str(self._folder))  # type: ignore[no-untyped-call]
        collector = MultiProcessCollector(None, str(self._folder))  # type: ignore[no-untyped-call]
        yield from collector.collect()  # type: ignore[no-untyped-call]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
