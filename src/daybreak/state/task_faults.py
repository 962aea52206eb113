"""Repository of the faults of long-lived tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from daybreak.state.records import values_of
from daybreak.state.service_tables import task_faults
from daybreak.state.statements import Store, upsert


@dataclass(frozen=True, slots=True)
class TaskFault:
    """A task that failed on a host, and has not succeeded since. `failures` counts its consecutive failures."""

    task: str
    host: str
    failures: int
    failed_at: datetime
    error: str


class TaskFaultStore(Store):
    """Tasks that fail at present, on all hosts."""

    def record(self, fault: TaskFault) -> None:
        """Record a failure. It replaces the previous one of the task on this host."""
        upsert(self._connection, task_faults, [values_of(fault)], keys=("task", "host"))

    def clear(self, task: str, host: str) -> None:
        """Record that a task succeeded."""
        self._execute(sa.delete(task_faults).where(task_faults.c.task == task, task_faults.c.host == host))

    def list_all(self) -> list[TaskFault]:
        found = sa.select(*task_faults.columns).order_by(task_faults.c.task, task_faults.c.host)
        return self._all(found, TaskFault)

    def delete_before(self, before: datetime) -> int:
        """Delete faults that were recorded before that instant, such as those of hosts that are gone."""
        return self._changes(sa.delete(task_faults).where(task_faults.c.failed_at < before))
