"""Repositories of node heartbeats, and of the faults of long-lived tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from daybreak.state.records import values_of
from daybreak.state.service_tables import nodes, task_faults
from daybreak.state.statements import Store, upsert

ALIVE_FOR = timedelta(minutes=2)
"""After its last heartbeat, a node counts as running. Heartbeats arrive every 15 seconds."""


@dataclass(frozen=True, slots=True)
class Node:
    """A running service process, as its heartbeat describes it.

    `keyring` is the fingerprint of its keyring, "" if the file is invalid, None for earlier versions.
    """

    node_id: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    roles: tuple[str, ...]
    keyring: str | None = None


class NodeStore(Store):
    """Heartbeats of service nodes."""

    def record_heartbeat(self, node: Node) -> None:
        upsert(self._connection, nodes, [values_of(node)], keys=("node_id",))

    def list_seen(self, since: datetime) -> list[Node]:
        rows = self._execute(
            sa.select(*nodes.columns).where(nodes.c.seen_at >= since).order_by(nodes.c.host, nodes.c.node_id)
        )
        return [
            Node(node_id, host, version, started_at, seen_at, tuple(roles), keyring)
            for node_id, host, version, started_at, seen_at, roles, keyring in rows
        ]

    def delete_before(self, before: datetime) -> int:
        """Delete nodes not seen since that instant, and return how many."""
        return self._changes(sa.delete(nodes).where(nodes.c.seen_at < before))


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
