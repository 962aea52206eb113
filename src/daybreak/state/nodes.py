"""Repository of node heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from daybreak.state.records import values_of
from daybreak.state.service_tables import nodes
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
