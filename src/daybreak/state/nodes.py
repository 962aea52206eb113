"""Repositories of node heartbeats, and of the faults of long-lived tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from daybreak.domain.errors import OperatorError
from daybreak.settings.text_forms import duration_in_words
from daybreak.state.records import columns_of, values_of
from daybreak.state.service_tables import nodes, task_faults
from daybreak.state.statements import Store

ALIVE_FOR = timedelta(minutes=2)
"""After its last heartbeat, a node counts as running. Heartbeats arrive every 15 seconds."""
CLOCK_TOLERANCE = timedelta(minutes=1)
"""Maximum difference between the clock of a node and that of the state database. Tokens of another node are accepted
within it.
"""
_MAX_CLOCK_OFFSET = timedelta(minutes=5)


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


def describe_offset(offset: timedelta) -> str:
    """Describe a clock that is too far from the database's, and the fix."""
    direction = "ahead of" if offset > timedelta(0) else "behind"
    return (
        f"The clock is {duration_in_words(abs(offset))} {direction} that of the state database. Run an NTP service on "
        "both machines."
    )


class NodeStore(Store):
    """Heartbeats of service nodes."""

    def record_heartbeat(self, node: Node) -> None:
        self._upsert(nodes, [values_of(node)])

    def beat(self, node: Callable[[datetime], Node], clock: Callable[[], datetime]) -> None:
        """Record a heartbeat of the node, and a failure of the task `clock` while its clock is wrong. The time is that
        of the database's clock: a heartbeat from the future would count after the end of the node.
        """
        offset, faults = self.clock_offset(clock), TaskFaultStore(self._connection)
        current = node(clock() - offset)
        self.record_heartbeat(current)
        if abs(offset) > CLOCK_TOLERANCE:
            found = ("clock", current.host)
            failures = 1 + sum(each.failures for each in faults.list_all() if (each.task, each.host) == found)
            faults.record(TaskFault(*found, failures, current.seen_at, describe_offset(offset)))
        else:
            faults.clear("clock", current.host)

    def clock_offset(self, clock: Callable[[], datetime]) -> timedelta:
        """Return how far a clock is ahead of the database's, negative if it is behind. The time that the query takes
        does not count. SQLite has the clock of this machine.
        """
        if self._connection.dialect.name == "sqlite":
            return timedelta(0)
        before = clock()
        found: datetime = self._execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return max(before - found, timedelta(0)) + min(clock() - found, timedelta(0))

    def require_clock(self, clock: Callable[[], datetime]) -> None:
        """Raise OperatorError when a clock is far from that of the database.

        A builder would publish at another hour than it states, as of an instant that blocks later publications, and
        delete what is not due. Receivers of webhooks refuse timestamps that are more than five minutes away.
        """
        offset = self.clock_offset(clock)
        if abs(offset) > _MAX_CLOCK_OFFSET:
            raise OperatorError(f"{describe_offset(offset)} Nothing is built, published, sent or deleted until then.")

    def list_seen(self, since: datetime) -> list[Node]:
        seen = sa.select(*columns_of(Node, nodes)).where(nodes.c.seen_at >= since)
        return self._all(seen.order_by(nodes.c.host, nodes.c.node_id), Node)

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
        self._upsert(task_faults, [values_of(fault)])

    def clear(self, task: str, host: str) -> None:
        """Record that a task succeeded."""
        self._execute(sa.delete(task_faults).where(task_faults.c.task == task, task_faults.c.host == host))

    def list_all(self) -> list[TaskFault]:
        found = sa.select(*task_faults.columns).order_by(task_faults.c.task, task_faults.c.host)
        return self._all(found, TaskFault)

    def delete_before(self, before: datetime) -> int:
        """Delete faults that were recorded before that instant, such as those of hosts that are gone."""
        return self._changes(sa.delete(task_faults).where(task_faults.c.failed_at < before))
