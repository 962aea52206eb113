"""Metrics from the state database: files, runs, directory, deliveries, tasks and nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from msgspec import UNSET
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from daybreak.domain.errors import OperatorError, Unavailable
from daybreak.domain.run_report import Accounting, NewestRow, RunDeltaFigures, RunReport
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.proof.newest import stale_tables
from daybreak.settings import Settings
from daybreak.snapshots.freshness import freshness
from daybreak.state.consumers import ConsumerCounts
from daybreak.state.deliveries import DeliveryBacklog
from daybreak.state.directory import SyncStatus
from daybreak.state.file_faults import FileFault
from daybreak.state.nodes import ALIVE_FOR, Node, TaskFault
from daybreak.state.stores import Stores

_RECENT_RUNS = 3
_FAILED_FOR = timedelta(days=1)
_NODES_KEPT = timedelta(days=7)
_log = structlog.get_logger("daybreak.web")


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What the state database knows at `now`. `runs` and `nodes` are recent ones, runs newest first."""

    now: datetime
    freshness: Freshness
    needs_builder: bool = True
    runs: Sequence[Snapshot] = ()
    held: int = 0
    sync: SyncStatus | None = None
    task_faults: Sequence[TaskFault] = ()
    file_faults: Sequence[FileFault] = ()
    nodes: Sequence[Node] = ()
    outbox: tuple[int, datetime | None] = (0, None)
    deliveries: Mapping[str, DeliveryBacklog] | None = None
    consumers: ConsumerCounts | None = None
    clock_offset: timedelta = timedelta(0)


ReadState = Callable[[], ServiceState]


def service_state(stores: Stores, settings: Settings, now: datetime) -> ServiceState:
    """Read the state of the service."""
    fresh = freshness(stores.snapshots, now, settings.snapshot.publish_at)
    unpublished = stores.snapshots.unpublished()
    return ServiceState(
        now=now,
        freshness=fresh,
        needs_builder=settings.needs_builder,
        runs=stores.snapshots.recent(_RECENT_RUNS),
        held=sum(each.state is SnapshotState.HELD and _is_newer(each, fresh.snapshot) for each in unpublished),
        sync=stores.directory.sync_status(),
        task_faults=stores.task_faults.list_all(),
        file_faults=stores.file_faults.list_all(),
        nodes=stores.nodes.list_seen(now - _NODES_KEPT),
        outbox=stores.outbox.backlog(),
        deliveries=stores.deliveries.backlog(now - _FAILED_FOR),
        consumers=stores.consumers.counts(now),
        clock_offset=stores.nodes.clock_offset(lambda: datetime.now(UTC)),
    )


def _is_newer(run: Snapshot, served: Snapshot | None) -> bool:
    return served is None or run.as_of > served.as_of


class StateMetrics(Collector):
    """Metrics from the state database. Omitted, and logged once, while it cannot be read."""

    def __init__(self, read_state: ReadState) -> None:
        self._read_state = read_state
        self._logged = False

    def collect(self) -> Iterator[Metric]:
        """Read the state database."""
        try:
            state = self._read_state()
        # The database does not respond, its file is missing, or it has another schema.
        except (Unavailable, OperatorError) as error:
            if not self._logged:
                _log.warning("metrics.state_unavailable", reason=error.message)
            self._logged = True
            return
        self._logged = False
        report = state.freshness.snapshot.report if state.freshness.snapshot is not None else RunReport()
        yield from _freshness_metrics(state.freshness)
        yield from _run_metrics(state)
        yield from _directory_metrics(state.sync)
        yield from _file_metrics(state.file_faults)
        yield _task_metrics(state.task_faults)
        yield from _node_metrics(state)
        yield from _delivery_metrics(state)
        yield from _consumer_metrics(state.consumers or ConsumerCounts(0, 0, 0, 0))
        yield from _source_metrics(report)
        yield from _row_metrics(report.accounting)
        yield from _delta_metrics(report.deltas or RunDeltaFigures(None))


def _seconds(at: datetime | None) -> float:
    return at.timestamp() if at is not None else 0


def _freshness_metrics(fresh: Freshness) -> Iterator[Metric]:
    served = fresh.snapshot
    yield GaugeMetricFamily("daybreak_files_late", "1 when files that are due are not published.", fresh.late)
    yield GaugeMetricFamily(
        "daybreak_files_late_since_timestamp_seconds",
        "The first publication that was missed, 0 when files are not late.",
        _seconds(fresh.late_since) if fresh.late else 0,
    )
    yield GaugeMetricFamily(
        "daybreak_files_expected_timestamp_seconds", "The next publication.", _seconds(fresh.next_expected_at)
    )
    yield GaugeMetricFamily(
        "daybreak_files_as_of_timestamp_seconds",
        "The instant that the published files describe, 0 before the first publication.",
        _seconds(served.as_of if served is not None else None),
    )
    yield GaugeMetricFamily(
        "daybreak_publication_version",
        "Version of the latest publication, 0 before the first one.",
        (served.version or 0) if served is not None else 0,
    )


def _run_metrics(state: ServiceState) -> Iterator[Metric]:
    """Yield the state of the latest run, and the figures of the latest one that ended."""
    latest = state.runs[0] if state.runs else None
    ended = next((run for run in state.runs if run.finished_at is not None), None)
    states = GaugeMetricFamily("daybreak_run_state", "1 for the state of the latest run, else 0.", labels=("state",))
    for each in SnapshotState:
        states.add_metric((each,), latest is not None and latest.state is each)
    yield states
    yield GaugeMetricFamily(
        "daybreak_run_started_timestamp_seconds",
        "Start of the latest run, 0 without one.",
        _seconds(latest.started_at if latest is not None else None),
    )
    yield GaugeMetricFamily(
        "daybreak_run_seconds",
        "Duration of the latest run that ended, 0 without one.",
        (ended.finished_at - ended.started_at).total_seconds() if ended is not None and ended.finished_at else 0,
    )
    yield GaugeMetricFamily(
        "daybreak_run_rows",
        "Rows in the files of the latest run that ended, 0 without one.",
        (ended.report.rows or 0) if ended is not None else 0,
    )
    yield GaugeMetricFamily("daybreak_snapshots_held", "Snapshots that wait for an operator's decision.", state.held)


def _directory_metrics(sync: SyncStatus | None) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "daybreak_directory_sync_failing",
        "1 when the directory is not synchronized, also in part.",
        sync is not None and sync.failing_since is not None,
    )
    yield GaugeMetricFamily(
        "daybreak_directory_sync_timestamp_seconds",
        "The latest complete synchronization of the directory, 0 without one.",
        _seconds(sync.succeeded_at if sync is not None else None),
    )


def _node_metrics(state: ServiceState) -> Iterator[Metric]:
    """Yield the running processes by role and version, the builder's heartbeat, and the number of keyrings."""
    alive = [node for node in state.nodes if state.now - node.seen_at < ALIVE_FOR]
    nodes = GaugeMetricFamily("daybreak_nodes", "Running nodes.", labels=("role", "version"))
    roles = sorted({(role, node.version) for node in alive for role in node.roles})
    for role, version in roles:
        nodes.add_metric((role, version), sum(role in node.roles and node.version == version for node in alive))
    yield nodes
    yield GaugeMetricFamily(
        "daybreak_keyrings",
        "Different keyrings of running nodes. More than 1: a node lacks a key.",
        len({node.keyring for node in alive if node.keyring is not None}),
    )
    yield GaugeMetricFamily(
        "daybreak_clock_offset_seconds",
        "How far the clock of this node is ahead of that of the state database.",
        state.clock_offset.total_seconds(),
    )
    if state.needs_builder:
        yield GaugeMetricFamily(
            "daybreak_builder_seen_timestamp_seconds",
            "The latest heartbeat of a builder, 0 without one. Omitted when the settings need no builder.",
            max((_seconds(node.seen_at) for node in state.nodes if "builder" in node.roles), default=0),
        )


def _delivery_metrics(state: ServiceState) -> Iterator[Metric]:
    """Yield the events and deliveries that wait, since when, and the deliveries that failed."""
    events, oldest = state.outbox
    yield GaugeMetricFamily("daybreak_outbox_events", "Events without all their deliveries.", events)
    yield GaugeMetricFamily(
        "daybreak_outbox_oldest_timestamp_seconds", "The oldest of these events, 0 without any.", _seconds(oldest)
    )
    pending = GaugeMetricFamily("daybreak_deliveries_pending", "Deliveries that are not made yet.", labels=("channel",))
    overdue = GaugeMetricFamily(
        "daybreak_deliveries_overdue_seconds", "How long the first of them has been due.", labels=("channel",)
    )
    failed = GaugeMetricFamily(
        "daybreak_deliveries_failed", "Deliveries that failed in the last day.", labels=("channel",)
    )
    for channel, backlog in (state.deliveries or {}).items():
        due_for = (state.now - backlog.due_at).total_seconds() if backlog.due_at is not None else 0
        pending.add_metric((channel,), backlog.pending)
        overdue.add_metric((channel,), max(due_for, 0))
        failed.add_metric((channel,), backlog.failed)
    yield from (pending, overdue, failed)


def _consumer_metrics(counts: ConsumerCounts) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "daybreak_accounts_fetched_yesterday",
        "Accounts with an API token that was used yesterday or today (UTC).",
        counts.yesterday,
    )
    yield GaugeMetricFamily(
        "daybreak_accounts_stopped", "Accounts whose API tokens were last used 3 to 30 days ago.", counts.stopped
    )
    yield GaugeMetricFamily("daybreak_tokens_unused", "API tokens that were not used for 90 days.", counts.unused)


def _source_metrics(report: RunReport) -> Iterator[Metric]:
    """Yield how current the source was when the published files were read."""
    yield GaugeMetricFamily(
        "daybreak_source_lag_seconds",
        "How far a standby was behind when the published files were read, 0 for other sources.",
        0 if report.source_lag_seconds is UNSET else report.source_lag_seconds or 0,
    )
    yield GaugeMetricFamily(
        "daybreak_source_tables_stale",
        "Tables whose newest row was unusually old when the published files were read.",
        sum(1 for _ in stale_tables(report)),
    )
    yield _newest_rows_metric(report.newest_rows or {})


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


def _delta_metrics(deltas: RunDeltaFigures) -> Iterator[Metric]:
    """Yield the figures of the latest publication's deltas, all 0 when it has none."""
    rows = GaugeMetricFamily("daybreak_delta_rows", "Rows of the latest deltas.", labels=("operation",))
    rows.add_metric(("inserted",), deltas.inserted or 0)
    rows.add_metric(("deleted",), deltas.deleted or 0)
    yield rows
    yield GaugeMetricFamily("daybreak_delta_bytes", "Size of the latest delta files.", deltas.bytes or 0)
    yield GaugeMetricFamily(
        "daybreak_delta_full_required",
        "Resources of all accounts whose latest change needs the full file.",
        deltas.full_required or 0,
    )
