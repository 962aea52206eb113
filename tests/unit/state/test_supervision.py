"""Supervised tasks: repeated with pauses, and visible while they fail."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daybreak.domain.errors import Unavailable
from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate
from daybreak.state.supervision import Supervisor

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


class PanicException(BaseException):
    """A panic of a compiled library."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path}/state.db"
    migrate(url)
    database = open_state(url)
    yield database
    database.close()


def _faults(state: Database) -> list[tuple[str, str, int]]:
    return [(each.task, each.host, each.failures) for each in state.read(lambda stores: stores.task_faults.list_all())]


@pytest.mark.parametrize("error", [ValueError("a defect"), PanicException("a panic")])
def test_failing_task_is_repeated_and_recorded_until_it_works(state: Database, error: BaseException) -> None:
    supervisor = Supervisor(state, "host:1", lambda: NOW)

    def fail() -> float:
        raise error

    pauses = [supervisor.attempt("mail", fail) for _ in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert _faults(state) == [("mail", "host", 8)]
    assert supervisor.attempt("mail", lambda: 7.0) == 7.0
    assert _faults(state) == []


def test_new_process_ends_the_fault_of_the_previous_one(state: Database) -> None:
    Supervisor(state, "host:1", lambda: NOW).record_failure("mail", ValueError("a defect"))
    Supervisor(state, "host:2", lambda: NOW).record_success("mail")
    assert _faults(state) == []


def test_expected_error_is_retried_after_five_seconds(state: Database) -> None:
    supervisor = Supervisor(state, "host:1", lambda: NOW)
    assert [supervisor.record_failure("builder", Unavailable("The bucket is away.")) for _ in range(4)] == [5.0] * 4


def test_message_of_a_defect_is_not_stored(state: Database) -> None:
    Supervisor(state, "host:1", lambda: NOW).record_failure("mail", ValueError("ana@example.org"))
    (fault,) = state.read(lambda stores: stores.task_faults.list_all())
    assert "ana" not in fault.error


def test_run_ends_when_stopped(state: Database) -> None:
    stop, steps = threading.Event(), []

    def step() -> float:
        steps.append(1)
        if len(steps) == 3:
            stop.set()
        return 0.0

    Supervisor(state, "host:1", lambda: NOW).run("builder", step, stop)
    assert len(steps) == 3


def test_interruption_is_not_caught(state: Database) -> None:
    def interrupt() -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Supervisor(state, "host:1", lambda: NOW).attempt("mail", interrupt)
