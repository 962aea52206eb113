"""The metrics of all workers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from structlog.testing import capture_logs

from daybreak.domain.errors import DaybreakError, OperatorError, Unavailable
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.state.directory import SyncStatus
from daybreak.state.file_faults import FileFault
from daybreak.state.task_faults import TaskFault
from daybreak.web.metrics_server import FreshnessMetrics, WorkerMetrics

HOUR = datetime(2026, 11, 22, 4, tzinfo=UTC)
FRESH = Freshness(snapshot=None, next_expected_at=HOUR, late=False)
# A worker that ends in the middle of a request.
WORKER = """
from daybreak.web.metrics import OPEN_REQUESTS, count_event
OPEN_REQUESTS.inc()
count_event("link_issued")
"""


def lines(collector: Collector) -> list[str]:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode().splitlines()


def test_ended_workers_count_except_for_open_requests(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", WORKER], env=environment, check=True)
    found = lines(WorkerMetrics(tmp_path))
    assert 'daybreak_events_total{event="link_issued"} 2.0' in found
    assert [line for line in found if line.startswith("daybreak_http_requests_open ")] == []


def test_freshness_is_zero_before_the_first_snapshot() -> None:
    found = lines(FreshnessMetrics(lambda: (FRESH, None, (), ())))
    assert "daybreak_files_late 0.0" in found
    assert "daybreak_files_as_of_timestamp_seconds 0.0" in found


def test_freshness_reports_late_files() -> None:
    served = Snapshot("one", SnapshotState.PUBLISHED, as_of=datetime(1970, 1, 1, 0, 1, tzinfo=UTC), started_at=HOUR)
    found = lines(FreshnessMetrics(lambda: (Freshness(served, HOUR, late=True, reason="It failed."), None, (), ())))
    assert "daybreak_files_late 1.0" in found
    assert "daybreak_files_as_of_timestamp_seconds 60.0" in found


def test_latest_version_and_its_deltas_are_reported() -> None:
    deltas = {"from": "zero", "inserted": 120, "deleted": 40, "bytes": 9120, "full_required": 2}
    served = Snapshot(
        "one", SnapshotState.PUBLISHED, as_of=HOUR, started_at=HOUR, version=48, report={"deltas": deltas}
    )
    found = lines(FreshnessMetrics(lambda: (Freshness(served, HOUR, late=False), None, (), ())))
    assert {
        "daybreak_publication_version 48.0",
        'daybreak_delta_rows{operation="inserted"} 120.0',
        'daybreak_delta_rows{operation="deleted"} 40.0',
        "daybreak_delta_bytes 9120.0",
        "daybreak_delta_full_required 2.0",
    } <= set(found)


def test_failing_sync_of_the_directory_is_reported() -> None:
    found = lines(FreshnessMetrics(lambda: (FRESH, SyncStatus(HOUR, HOUR, HOUR, "It failed."), (), ())))
    assert "daybreak_directory_sync_failing 1.0" in found
    (succeeded,) = [line for line in found if line.startswith("daybreak_directory_sync_timestamp_seconds ")]
    assert float(succeeded.split()[1]) == HOUR.timestamp()


def test_failing_tasks_are_counted() -> None:
    faults = [TaskFault(task, "host", 2, HOUR, "ValueError") for task in ("mail", "webhook 1", "webhook 2")]
    found = lines(FreshnessMetrics(lambda: (FRESH, None, faults, ())))
    assert [line for line in found if line.startswith("daybreak_task_failures{")] == [
        'daybreak_task_failures{task="mail"} 2.0',
        'daybreak_task_failures{task="webhook"} 4.0',
    ]


def test_lost_files_are_counted() -> None:
    faults = [FileFault("two", 2, 3, HOUR, True), FileFault("one", 1, 2, datetime(1970, 1, 1, 0, 1, tzinfo=UTC), False)]
    found = lines(FreshnessMetrics(lambda: (FRESH, None, (), faults)))
    assert "daybreak_files_lost 5.0" in found
    assert "daybreak_files_lost_since_timestamp_seconds 60.0" in found


@pytest.mark.parametrize("fault", [Unavailable("It does not answer."), OperatorError("It does not exist.")])
def test_freshness_is_omitted_without_the_state_database(fault: DaybreakError) -> None:
    readings: Iterator[Freshness | DaybreakError] = iter([fault, fault, FRESH, fault])

    def read() -> tuple[Freshness, None, list[TaskFault], list[FileFault]]:
        reading = next(readings)
        if isinstance(reading, DaybreakError):
            raise reading
        return reading, None, [], []

    metrics = FreshnessMetrics(read)
    with capture_logs() as logged:
        assert [bool(lines(metrics)) for _ in range(4)] == [False, False, True, False]
    # Once for each time that the database becomes unavailable.
    assert [(entry["event"], entry["reason"]) for entry in logged] == [("metrics.state_unavailable", fault.message)] * 2
