"""Repository of node heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from daybreak.state.schema import nodes
from daybreak.state.statements import upsert


@dataclass(frozen=True, slots=True)
class Node:
    """A running service process, as its heartbeat describes it."""

    node_id: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    roles: tuple[str, ...]


class NodeStore:
    """Heartbeats of service nodes."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def record_heartbeat(self, node: Node) -> None:
        upsert(
            self._connection,
            nodes,
            [
                {
                    "node_id": node.node_id,
                    "host": node.host,
                    "version": node.version,
                    "started_at": node.started_at,
                    "seen_at": node.seen_at,
                    "roles": node.roles,
                }
            ],
            keys=("node_id",),
        )

    def list_seen(self, since: datetime) -> list[Node]:
        rows = self._connection.execute(
            sa.select(*nodes.columns).where(nodes.c.seen_at >= since).order_by(nodes.c.host, nodes.c.node_id)
        )
        return [
            Node(node_id, host, version, started_at, seen_at, tuple(roles))
            for node_id, host, version, started_at, seen_at, roles in rows
        ]

    def delete_before(self, before: datetime) -> int:
        """Delete nodes not seen since that instant, and return how many."""
        return self._connection.execute(sa.delete(nodes).where(nodes.c.seen_at < before)).rowcount
