"""Metrics from the state database: files, runs, directory, deliveries, tasks and nodes.

`metrics_state.toml` says what each metric is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import UNSET
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from daybreak.domain.errors import OperatorError, Unavailable
from daybreak.domain.run_report import RunDeltaFigures, RunReport
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.proof.newest import stale_tables
from daybreak.settings import Settings
from daybreak.snapshots.freshness import freshness
from daybreak.state.deliveries import DeliveryBacklog
from daybreak.state.directory import SyncStatus
from daybreak.state.file_faults import FileFault
from daybreak.state.nodes import ALIVE_FOR, Node, TaskFault
from daybreak.state.stores import Stores

_RECENT_RUNS = 3
_FAILED_FOR = timedelta(days=1)
_NODES_KEPT = timedelta(days=7)
# Prometheus waits ten seconds. Without an answer it would lose the metrics of requests too.
_MAX_SECONDS = 8.0
_log = structlog.get_logger("daybreak.web")


class _Metric(msgspec.Struct, frozen=True):
    """What a metric is, and its labels."""

    help: str
    labels: tuple[str, ...] = ()


_METRICS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, _Metric])


Values = float | Mapping[Any, float]
"""The value of a metric, or its values by tuples of label values."""
ReadValues = Callable[[], Mapping[str, Values]]
"""Reads the values of all metrics, by name."""


def state_values(stores: Stores, settings: Settings, now: datetime) -> dict[str, Values]:
    """Return what the state database knows, by metric."""
    fresh, needs_builder = freshness(stores.snapshots, now, settings.snapshot.publish_at), settings.needs_builder
    served_at = fresh.snapshot.as_of if fresh.snapshot is not None else datetime.min.replace(tzinfo=UTC)
    unpublished = stores.snapshots.unpublished()
    counts = stores.consumers.counts(now)
    return {
        **freshness_values(fresh),
        **run_values(stores.snapshots.recent(_RECENT_RUNS)),
        "daybreak_snapshots_held": sum(
            each.state is SnapshotState.HELD and each.as_of > served_at for each in unpublished
        ),
        **sync_values(stores.directory.sync_status()),
        **file_fault_values(stores.file_faults.list_all()),
        "daybreak_task_failures": task_failures(stores.task_faults.list_all()),
        **node_values(stores.nodes.list_seen(now - _NODES_KEPT), now, needs_builder=needs_builder),
        "daybreak_clock_offset_seconds": stores.nodes.clock_offset(lambda: datetime.now(UTC)).total_seconds(),
        **delivery_values(
            stores.outbox.backlog(), stores.deliveries.backlog(now - _FAILED_FOR), now, needs_builder=needs_builder
        ),
        "daybreak_accounts_fetched_yesterday": counts.yesterday,
        "daybreak_accounts_stopped": counts.stopped,
        "daybreak_tokens_unused": counts.unused,
        **report_values(fresh.snapshot.report if fresh.snapshot is not None else RunReport()),
    }


class StateMetrics(Collector):
    """Metrics from the state database. Omitted, and logged once, while it cannot be read."""

    def __init__(self, read_values: ReadValues) -> None:
        self._read_values = read_values
        self._threads = ThreadPoolExecutor(1, "metrics")
        self._logged = False

    def collect(self) -> Iterator[Metric]:
        try:
            found = self._read()
        # The database does not respond, its file is missing, or it has another schema.
        except (Unavailable, OperatorError) as error:
            if not self._logged:
                _log.warning("metrics.state_unavailable", reason=error.message)
            self._logged = True
            return
        self._logged = False
        for name, values in found.items():
            metric = GaugeMetricFamily(name, _METRICS[name].help, labels=_METRICS[name].labels)
            for labels, value in (values if isinstance(values, Mapping) else {(): values}).items():
                metric.add_metric(labels, value)
            yield metric

    def _read(self) -> Mapping[str, Values]:
        """Return the values. Raises Unavailable, also after `_MAX_SECONDS`, and OperatorError."""
        reading = self._threads.submit(self._read_values)
        try:
            return reading.result(_MAX_SECONDS)
        except TimeoutError:
            # Not started if another one hangs.
            reading.cancel()
            raise Unavailable("The state database does not answer.") from None


def _seconds(at: datetime | None) -> float:
    return at.timestamp() if at is not None else 0


def freshness_values(fresh: Freshness) -> dict[str, Values]:
    served = fresh.snapshot
    return {
        "daybreak_files_late": fresh.late,
        "daybreak_files_late_since_timestamp_seconds": _seconds(fresh.late_since) if fresh.late else 0,
        "daybreak_files_expected_timestamp_seconds": _seconds(fresh.next_expected_at),
        "daybreak_files_as_of_timestamp_seconds": _seconds(served.as_of if served is not None else None),
        "daybreak_publication_version": (served.version or 0) if served is not None else 0,
    }


def run_values(runs: Sequence[Snapshot]) -> dict[str, Values]:
    """Return the state of the latest run, and the figures of the latest one that ended. `runs` are newest first."""
    latest = runs[0] if runs else None
    ended = next((run for run in runs if run.duration is not None), None)
    return {
        "daybreak_run_state": {(each,): latest is not None and latest.state is each for each in SnapshotState},
        "daybreak_run_started_timestamp_seconds": _seconds(latest.started_at if latest is not None else None),
        "daybreak_run_seconds": ended.duration.total_seconds() if ended is not None and ended.duration else 0,
        "daybreak_run_rows": (ended.report.rows or 0) if ended is not None else 0,
    }


def sync_values(sync: SyncStatus | None) -> dict[str, Values]:
    return {
        "daybreak_directory_sync_failing": sync is not None and sync.failing_since is not None,
        "daybreak_directory_sync_timestamp_seconds": _seconds(sync.succeeded_at if sync is not None else None),
    }


def file_fault_values(faults: Sequence[FileFault]) -> dict[str, Values]:
    return {
        "daybreak_files_lost": sum(fault.files for fault in faults),
        "daybreak_files_lost_since_timestamp_seconds": min((_seconds(each.since) for each in faults), default=0),
    }


def task_failures(faults: Sequence[TaskFault]) -> Values:
    """Return the failures of background tasks. Endpoints of webhooks are added up: their number has no bound."""
    failures: Counter[tuple[str, ...]] = Counter()
    for each in faults:
        failures[each.task.partition(" ")[0],] += each.failures
    return failures


def node_values(nodes: Sequence[Node], now: datetime, *, needs_builder: bool) -> dict[str, Values]:
    """Return the running processes by role and version, the builder's heartbeat, and the number of keyrings."""
    alive = [node for node in nodes if now - node.seen_at < ALIVE_FOR]
    roles = Counter(sorted((role, node.version) for node in alive for role in set(node.roles)))
    keyrings = {node.keyring for node in alive if node.keyring is not None}
    found: dict[str, Values] = {"daybreak_nodes": dict(roles), "daybreak_keyrings": len(keyrings)}
    if needs_builder:
        seen = (_seconds(node.seen_at) for node in nodes if "builder" in node.roles)
        found["daybreak_builder_seen_timestamp_seconds"] = max(seen, default=0)
    return found


def delivery_values(
    outbox: tuple[int, datetime | None], backlogs: Mapping[str, DeliveryBacklog], now: datetime, *, needs_builder: bool
) -> dict[str, Values]:
    """Return the events and deliveries that wait, since when, and the deliveries that failed.

    Without a builder, nothing waits: the settings have neither webhooks nor mail.
    """
    (events, oldest), channels = (outbox, backlogs) if needs_builder else ((0, None), {})
    overdue = {
        (channel,): max((now - each.due_at).total_seconds(), 0) if each.due_at is not None else 0
        for channel, each in channels.items()
    }
    return {
        "daybreak_outbox_events": events,
        "daybreak_outbox_oldest_timestamp_seconds": _seconds(oldest),
        "daybreak_deliveries_pending": {(channel,): each.pending for channel, each in channels.items()},
        "daybreak_deliveries_overdue_seconds": overdue,
        "daybreak_deliveries_failed": {(channel,): each.failed for channel, each in channels.items()},
    }


def report_values(report: RunReport) -> dict[str, Values]:
    """Return how current the source of the published files was, its rows by rule, and the figures of the deltas."""
    tables = report.accounting.tables if report.accounting is not None else ()
    excluded = {(each.resource, each.table, rule): rows for each in tables for rule, rows in each.excluded.items()}
    deltas = report.deltas or RunDeltaFigures(None)
    return {
        "daybreak_source_lag_seconds": 0 if report.source_lag_seconds is UNSET else report.source_lag_seconds or 0,
        "daybreak_source_tables_stale": sum(1 for _ in stale_tables(report)),
        "daybreak_source_newest_row_timestamp_seconds": {
            (table,): _seconds(row.at) for table, row in (report.newest_rows or {}).items()
        },
        "daybreak_source_rows": {(each.resource, each.table, "exported"): each.exported for each in tables} | excluded,
        "daybreak_source_rows_of_no_account": {
            (each.resource, each.table, rule): rows for each in tables for rule, rows in each.of_no_account.items()
        },
        "daybreak_unexplained_accounts": {(each.resource, each.table): each.unexplained_accounts for each in tables},
        "daybreak_delta_rows": {("inserted",): deltas.inserted or 0, ("deleted",): deltas.deleted or 0},
        "daybreak_delta_bytes": deltas.bytes or 0,
        "daybreak_delta_full_required": deltas.full_required or 0,
    }
