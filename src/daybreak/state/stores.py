"""All stores on one connection, in one transaction."""

from __future__ import annotations

import sqlalchemy as sa

from daybreak.state.api_tokens import SqlApiTokens
from daybreak.state.audit import SqlAudit
from daybreak.state.deltas import SqlDeltas
from daybreak.state.directory import SqlDirectory
from daybreak.state.identities import SqlIdentities
from daybreak.state.nodes import SqlNodes
from daybreak.state.passkeys import SqlPasskeys
from daybreak.state.seats import SqlSeats
from daybreak.state.sessions import SqlSessions
from daybreak.state.snapshots import SqlSnapshots
from daybreak.state.throttle import SqlThrottle


class SqlStores:
    """Stores of one transaction. Not usable after it ends."""

    __slots__ = (
        "api_tokens",
        "audit",
        "deltas",
        "directory",
        "identities",
        "nodes",
        "passkeys",
        "seats",
        "sessions",
        "snapshots",
        "throttle",
    )

    def __init__(self, connection: sa.Connection) -> None:
        self.seats = SqlSeats(connection)
        self.identities = SqlIdentities(connection)
        self.sessions = SqlSessions(connection)
        self.passkeys = SqlPasskeys(connection)
        self.api_tokens = SqlApiTokens(connection)
        self.throttle = SqlThrottle(connection)
        self.audit = SqlAudit(connection)
        self.snapshots = SqlSnapshots(connection)
        self.deltas = SqlDeltas(connection)
        self.directory = SqlDirectory(connection)
        self.nodes = SqlNodes(connection)
