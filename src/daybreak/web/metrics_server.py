"""The metrics of all workers, on a separate listener."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from daybreak.domain.errors import OperatorError, Unavailable
from daybreak.domain.snapshot import Freshness
from daybreak.proof.newest import NewestRow, newest_rows_of
from daybreak.proof.report import Accounting, accounting_of
from daybreak.snapshots.report import count, figure, section
from daybreak.state.directory import SyncStatus
from daybreak.state.file_faults import FileFault
from daybreak.state.task_faults import TaskFault
from daybreak.web.listener import TcpAddress

ReadFreshness = Callable[[], tuple[Freshness, SyncStatus | None, Sequence[TaskFault], Sequence[FileFault]]]
_PARENT_POLL_SECONDS = 1.0
_log = structlog.get_logger("daybreak.web")


def serve_metrics(address: TcpAddress, folder: Path, read_freshness: ReadFreshness, main_pid: int) -> None:
    """Serve metrics until SIGTERM, or until the main process has ended. Runs in a separate process.

    Args:
        address: Where to listen.
        folder: Where the workers write their metrics (PROMETHEUS_MULTIPROC_DIR).
        read_freshness: Reads the freshness of the files, the status of the directory, failing tasks, and snapshots with
            lost files, from the state database.
        main_pid: The process id of the main process.
    """
    # Ctrl-C reaches every process; the main process then sends SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    registry = CollectorRegistry()
    registry.register(WorkerMetrics(folder))
    registry.register(FreshnessMetrics(read_freshness))
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


class FreshnessMetrics(Collector):
    """Freshness of the published files and of the directory. Omitted, and logged once, while the state database cannot
    be read.
    """

    def __init__(self, read_freshness: ReadFreshness) -> None:
        self._read_freshness = read_freshness
        self._logged = False

    def collect(self) -> Iterator[Metric]:
        """Read the state database."""
        try:
            fresh, sync, faults, file_faults = self._read_freshness()
        # The database does not respond, its file is missing, or it has another schema.
        except (Unavailable, OperatorError) as error:
            if not self._logged:
                _log.warning("metrics.state_unavailable", reason=error.message)
            self._logged = True
            return
        self._logged = False
        served = fresh.snapshot
        yield GaugeMetricFamily("daybreak_files_late", "1 when files that are due are not published.", fresh.late)
        yield GaugeMetricFamily(
            "daybreak_files_as_of_timestamp_seconds",
            "The instant that the published files describe, 0 before the first publication.",
            served.as_of.timestamp() if served is not None else 0,
        )
        yield GaugeMetricFamily(
            "daybreak_publication_version",
            "Version of the latest publication, 0 before the first one.",
            (served.version or 0) if served is not None else 0,
        )
        yield GaugeMetricFamily(
            "daybreak_source_lag_seconds",
            "How far a standby was behind when the published files were read, 0 for other sources.",
            figure(served.report, "source_lag_seconds") if served is not None else 0,
        )
        yield GaugeMetricFamily(
            "daybreak_directory_sync_failing",
            "1 when the directory is not synchronized, also in part.",
            sync is not None and sync.failing_since is not None,
        )
        yield GaugeMetricFamily(
            "daybreak_directory_sync_timestamp_seconds",
            "The latest complete synchronization of the directory, 0 without one.",
            sync.succeeded_at.timestamp() if sync is not None and sync.succeeded_at is not None else 0,
        )
        yield from _file_metrics(file_faults)
        yield _task_metrics(faults)
        yield _newest_rows_metric(newest_rows_of(served.report) if served is not None else {})
        yield from _row_metrics(accounting_of(served.report) if served is not None else None)
        yield from _delta_metrics(section(served.report.get("deltas")) if served is not None else {})


def _newest_rows_metric(rows: Mapping[str, NewestRow]) -> Metric:
    metric = GaugeMetricFamily(
        "daybreak_source_newest_row_timestamp_seconds",
        "The newest row of a source table when the published files were read.",
        labels=("table",),
    )
    for table, row in rows.items():
        metric.add_metric((table,), row.at.timestamp())
    return metric


def _row_metrics(accounting: Accounting | None) -> Iterator[Metric]:
    """Yield the rows of the source tables of the published files, by rule."""
    labels = ("resource", "table", "rule")
    rows = GaugeMetricFamily("daybreak_source_rows", "Rows of the source, by rule or exported.", labels=labels)
    of_no_account = GaugeMetricFamily(
        "daybreak_source_rows_of_no_account", "Rows of the source that belong to no known Leader.", labels=labels
    )
    unexplained = GaugeMetricFamily(
        "daybreak_unexplained_accounts", "Accounts whose files differ from the source.", labels=labels[:2]
    )
    for table in accounting.tables if accounting is not None else ():
        names = (table.resource, table.table)
        rows.add_metric((*names, "exported"), table.exported)
        for rule, count_of_rule in table.excluded.items():
            rows.add_metric((*names, rule), count_of_rule)
        for rule, count_of_rule in table.of_no_account.items():
            of_no_account.add_metric((*names, rule), count_of_rule)
        unexplained.add_metric(names, table.unexplained_accounts)
    yield from (rows, of_no_account, unexplained)


def _file_metrics(file_faults: Sequence[FileFault]) -> Iterator[Metric]:
    """Yield how many files of kept snapshots are lost, and since when."""
    yield GaugeMetricFamily(
        "daybreak_files_lost",
        "Files of kept snapshots that the latest run or verification found lost or damaged.",
        sum(fault.files for fault in file_faults),
    )
    yield GaugeMetricFamily(
        "daybreak_files_lost_since_timestamp_seconds",
        "When the first of these files was found lost or damaged, 0 without any.",
        min((fault.since.timestamp() for fault in file_faults), default=0),
    )


def _task_metrics(faults: Sequence[TaskFault]) -> Metric:
    """Return the failures of background tasks. Endpoints of webhooks are added up: their number has no bound."""
    failures: dict[str, int] = {}
    for each in faults:
        task = each.task.partition(" ")[0]
        failures[task] = failures.get(task, 0) + each.failures
    metric = GaugeMetricFamily(
        "daybreak_task_failures",
        "Consecutive failures of a background task. A task that works is left out.",
        labels=("task",),
    )
    for task, count_of_task in failures.items():
        metric.add_metric((task,), count_of_task)
    return metric


def _delta_metrics(deltas: Mapping[str, object]) -> Iterator[Metric]:
    """Yield the figures of the latest publication's deltas, all 0 when it has none."""
    rows = GaugeMetricFamily("daybreak_delta_rows", "Rows of the latest deltas.", labels=("operation",))
    for operation in ("inserted", "deleted"):
        rows.add_metric((operation,), count(deltas, operation))
    yield rows
    yield GaugeMetricFamily("daybreak_delta_bytes", "Size of the latest delta files.", count(deltas, "bytes"))
    yield GaugeMetricFamily(
        "daybreak_delta_full_required",
        "Resources of all accounts whose latest change needs the full file.",
        count(deltas, "full_required"),
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
