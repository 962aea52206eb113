"""Metrics from the state database."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from daybreak.domain.errors import DaybreakError, OperatorError, Unavailable
from daybreak.domain.run_report import RunDeltaFigures, RunReport
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.state.deliveries import DeliveryBacklog
from daybreak.state.directory import SyncStatus
from daybreak.state.file_faults import FileFault
from daybreak.state.nodes import Node, TaskFault
from daybreak.web import metrics_state
from daybreak.web.metrics_state import (
    StateMetrics,
    Values,
    delivery_values,
    file_fault_values,
    freshness_values,
    node_values,
    report_values,
    run_values,
    sync_values,
    task_failures,
)
from tests.parts.waiting import wait_until
from tests.unit.web.scraping import lines

HOUR = datetime(2026, 11, 22, 4, tzinfo=UTC)
FRESH = Freshness(snapshot=None, next_expected_at=HOUR, late=False)
VALUES = freshness_values(FRESH)
RUN = Snapshot("one", SnapshotState.PUBLISHED, as_of=HOUR, started_at=HOUR)


def samples(values: Mapping[str, Values]) -> list[str]:
    return lines(StateMetrics(lambda: values))


def samples_of(values: Mapping[str, Values], name: str) -> dict[str, float]:
    """Return the values of a metric by the values of its labels."""
    found = [line for line in samples(values) if line.startswith((f"{name} ", f"{name}{{"))]
    return {line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2]) for line in found}


def test_freshness_is_zero_before_the_first_snapshot() -> None:
    found = samples(VALUES)
    assert "daybreak_files_late 0.0" in found
    assert "daybreak_files_as_of_timestamp_seconds 0.0" in found


def test_freshness_reports_late_files() -> None:
    served = Snapshot("one", SnapshotState.PUBLISHED, as_of=datetime(1970, 1, 1, 0, 1, tzinfo=UTC), started_at=HOUR)
    found = samples(freshness_values(Freshness(served, HOUR, late=True, reason="It failed.")))
    assert "daybreak_files_late 1.0" in found
    assert "daybreak_files_as_of_timestamp_seconds 60.0" in found


def test_latest_version_and_its_deltas_are_reported() -> None:
    deltas = RunDeltaFigures("zero", inserted=120, deleted=40, bytes=9120, full_required=2)
    fresh = Freshness(replace(RUN, version=48), HOUR, late=False)
    found = samples(freshness_values(fresh) | report_values(RunReport(deltas=deltas)))
    assert {
        "daybreak_publication_version 48.0",
        'daybreak_delta_rows{operation="inserted"} 120.0',
        'daybreak_delta_rows{operation="deleted"} 40.0',
        "daybreak_delta_bytes 9120.0",
        "daybreak_delta_full_required 2.0",
    } <= set(found)


def test_failing_sync_of_the_directory_is_reported() -> None:
    found = samples(sync_values(SyncStatus(HOUR, HOUR, HOUR, "It failed.")))
    assert "daybreak_directory_sync_failing 1.0" in found
    (succeeded,) = [line for line in found if line.startswith("daybreak_directory_sync_timestamp_seconds ")]
    assert float(succeeded.split()[1]) == HOUR.timestamp()


def test_failing_tasks_are_counted() -> None:
    faults = [TaskFault(task, "host", 2, HOUR, "ValueError") for task in ("mail", "webhook 1", "webhook 2")]
    found = samples({"daybreak_task_failures": task_failures(faults)})
    assert [line for line in found if line.startswith("daybreak_task_failures{")] == [
        'daybreak_task_failures{task="mail"} 2.0',
        'daybreak_task_failures{task="webhook"} 4.0',
    ]


def test_lost_files_are_counted() -> None:
    faults = [FileFault("two", 2, 3, HOUR, True), FileFault("one", 1, 2, datetime(1970, 1, 1, 0, 1, tzinfo=UTC), False)]
    found = samples(file_fault_values(faults))
    assert "daybreak_files_lost 5.0" in found
    assert "daybreak_files_lost_since_timestamp_seconds 60.0" in found


@pytest.mark.parametrize("fault", [Unavailable("It does not answer."), OperatorError("It does not exist.")])
def test_state_is_omitted_without_the_state_database(fault: DaybreakError) -> None:
    readings: Iterator[Mapping[str, Values] | DaybreakError] = iter([fault, fault, VALUES, fault])

    def read() -> Mapping[str, Values]:
        reading = next(readings)
        if isinstance(reading, DaybreakError):
            raise reading
        return reading

    metrics = StateMetrics(read)
    with capture_logs() as logged:
        assert [bool(lines(metrics)) for _ in range(4)] == [False, False, True, False]
    # Once for each time that the database becomes unavailable.
    assert [(entry["event"], entry["reason"]) for entry in logged] == [("metrics.state_unavailable", fault.message)] * 2


def test_database_that_hangs_does_not_delay_the_other_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_state, "_MAX_SECONDS", 0.01)
    answers = threading.Event()

    def read() -> Mapping[str, Values]:
        answers.wait(5)
        return VALUES

    metrics = StateMetrics(read)
    assert [lines(metrics), lines(metrics)] == [[], []]
    answers.set()
    wait_until(lambda: bool(lines(metrics)), what="an answer")


def test_latest_run_and_the_latest_ended_one_are_reported() -> None:
    running = replace(RUN, snapshot_id="two", state=SnapshotState.BUILDING, started_at=HOUR + timedelta(days=1))
    ended = replace(RUN, finished_at=HOUR + timedelta(seconds=90), report=RunReport(rows=1200))
    values = run_values([running, ended])
    states = samples_of(values, "daybreak_run_state")
    assert {name for name, value in states.items() if value} == {'{state="building"}'}
    assert len(states) == len(SnapshotState)
    assert samples_of(values, "daybreak_run_started_timestamp_seconds") == {"": running.started_at.timestamp()}
    assert {"daybreak_run_seconds 90.0", "daybreak_run_rows 1200.0"} <= set(samples(values))


def test_lateness_begins_with_the_first_missed_publication() -> None:
    late = Freshness(None, HOUR + timedelta(hours=1), late=True, late_since=HOUR)
    for fresh, since in ((late, HOUR.timestamp()), (FRESH, 0)):
        values = freshness_values(fresh)
        assert samples_of(values, "daybreak_files_late_since_timestamp_seconds") == {"": since}
        expected = {"": fresh.next_expected_at.timestamp()}
        assert samples_of(values, "daybreak_files_expected_timestamp_seconds") == expected


def test_running_nodes_and_their_keyrings_are_counted() -> None:
    def node(number: int, role: str, seconds: int, keyring: str | None, version: str = "2") -> Node:
        return Node(f"n{number}", "h", version, HOUR, HOUR - timedelta(seconds=seconds), (role,), keyring)

    nodes = [
        node(1, "web", 5, "a"),
        node(2, "web", 15, "b"),
        node(3, "web", 15, None, version="1"),
        # It stopped an hour ago.
        node(4, "builder", 3600, "c"),
    ]
    values = node_values(nodes, HOUR, needs_builder=True)
    assert samples_of(values, "daybreak_nodes") == {
        '{role="web",version="1"}': 1,
        '{role="web",version="2"}': 2,
    }
    assert samples_of(values, "daybreak_keyrings") == {"": 2}
    seen = "daybreak_builder_seen_timestamp_seconds"
    assert samples_of(values, seen) == {"": HOUR.timestamp() - 3600}
    assert samples_of(node_values([], HOUR, needs_builder=True), seen) == {"": 0}
    assert samples_of(node_values(nodes, HOUR, needs_builder=False), seen) == {}


def test_waiting_and_failed_deliveries_are_counted() -> None:
    minute = timedelta(minutes=1)
    backlogs = {"mail": DeliveryBacklog(3, HOUR - minute, 2), "webhook": DeliveryBacklog(1, HOUR + minute, 0)}
    values = delivery_values((4, HOUR - minute), backlogs, HOUR, needs_builder=True)
    assert {
        "daybreak_outbox_events 4.0",
        'daybreak_deliveries_pending{channel="mail"} 3.0',
        'daybreak_deliveries_overdue_seconds{channel="mail"} 60.0',
        'daybreak_deliveries_overdue_seconds{channel="webhook"} 0.0',
        'daybreak_deliveries_failed{channel="mail"} 2.0',
    } <= set(samples(values))
    oldest = "daybreak_outbox_oldest_timestamp_seconds"
    assert samples_of(values, oldest) == {"": HOUR.timestamp() - 60}
    # Without webhooks, mail and schedule, events stay in the outbox.
    assert samples_of(delivery_values((4, HOUR), backlogs, HOUR, needs_builder=False), oldest) == {"": 0}
