"""The metrics of all workers, on a separate listener."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from daybreak.web.listener import TcpAddress
from daybreak.web.metrics_state import ReadState, StateMetrics

_PARENT_POLL_SECONDS = 1.0


def serve_metrics(address: TcpAddress, folder: Path, read_state: ReadState, main_pid: int) -> None:
    """Serve metrics until SIGTERM, or until the main process has ended. Runs in a separate process.

    Args:
        address: Where to listen.
        folder: Where the workers write their metrics (PROMETHEUS_MULTIPROC_DIR).
        read_state: Reads what the state database knows.
        main_pid: The process id of the main process.
    """
    # Ctrl-C reaches every process; the main process then sends SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    registry = CollectorRegistry()
    registry.register(WorkerMetrics(folder))
    registry.register(StateMetrics(read_state))
    start_http_server(address.port, address.host, registry)
    pause = threading.Event()
    while os.getppid() == main_pid:
        pause.wait(_PARENT_POLL_SECONDS)


class WorkerMetrics(Collector):
    """Metrics summed over all workers, ended ones included."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """Read the files of all workers."""
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
