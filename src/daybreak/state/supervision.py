"""Supervision of long-lived tasks: a step that fails is repeated with increasing pauses, and its fault is recorded.

Faults are in the state database, so that `/readyz`, the metrics and `daybreakd doctor` show those of every process.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import structlog

from daybreak.domain.errors import DaybreakError, first_line, is_panic
from daybreak.state.nodes import TaskFault
from daybreak.state.stores import State

_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 60.0
# An interruption of a database or a file store ends without notice.
_AFTER_DAYBREAK_ERROR_SECONDS = 5.0
_MAX_ERROR_LENGTH = 300
_log = structlog.get_logger("daybreak.tasks")


class Supervisor:
    """Records the faults of the tasks of one process. `holder` begins with the name of the host and a colon.

    Safe for several threads, as long as each task has one.
    """

    def __init__(self, state: State, holder: str, clock: Callable[[], datetime]) -> None:
        self._state = state
        self._host = holder.partition(":")[0]
        self._clock = clock
        # Consecutive failures of each task. A task without an entry may have a fault that an ended process recorded.
        self._failures: dict[str, int] = {}

    def attempt(self, task: str, step: Callable[[], float]) -> float:
        """Run a step, which returns the seconds until the next one, and return them: more after a failure."""
        try:
            seconds = step()
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            return self.record_failure(task, error)
        self.record_success(task)
        return seconds

    def run(self, task: str, step: Callable[[], float], stop: threading.Event) -> None:
        """Repeat a step until `stop` is set."""
        while not stop.wait(self.attempt(task, step)):
            pass

    def record_failure(self, task: str, error: BaseException) -> float:
        """Record a failure, and return the seconds until the next attempt."""
        fault = self._fault(task, error)
        with suppress(DaybreakError):
            self._state.write(lambda stores: stores.task_faults.record(fault))
        if isinstance(error, DaybreakError):
            return _AFTER_DAYBREAK_ERROR_SECONDS
        return float(min(_FIRST_PAUSE_SECONDS * 2 ** min(fault.failures - 1, 16), _MAX_PAUSE_SECONDS))

    def record_success(self, task: str) -> None:
        """Record that a task works."""
        if self._failures.get(task) == 0:
            return
        with suppress(DaybreakError):
            self._state.write(lambda stores: stores.task_faults.clear(task, self._host))
            self._failures[task] = 0

    def _fault(self, task: str, error: BaseException) -> TaskFault:
        failures = self._failures.get(task, 0) + 1
        self._failures[task] = failures
        if isinstance(error, DaybreakError):
            text = error.message
            _log.error("task.failed", task=task, failures=failures, code=error.code, reason=text)
        else:
            # Without the message of an unexpected error, which may contain data.
            text = f"{type(error).__name__}. The log has the details."
            _log.error("task.failed", task=task, failures=failures, reason=first_line(error), exc_info=error)
        return TaskFault(task, self._host, failures, self._clock(), text[:_MAX_ERROR_LENGTH])
