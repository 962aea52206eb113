"""All stores on one connection, in one transaction."""

from __future__ import annotations

import sqlalchemy as sa

from daybreak.state.api_tokens import SqlApiTokens
from daybreak.state.audit import SqlAudit
from daybreak.state.deliveries import SqlDeliveries
from daybreak.state.deltas import SqlDeltas
from daybreak.state.directory import SqlDirectory
from daybreak.state.erasures import SqlErasures
from daybreak.state.identities import SqlIdentities
from daybreak.state.nodes import SqlNodes
from daybreak.state.notifications import SqlNotifications
from daybreak.state.outbox import SqlOutbox
from daybreak.state.passkeys import SqlPasskeys
from daybreak.state.password_resets import SqlPasswordResets
from daybreak.state.run_requests import SqlRunRequests
from daybreak.state.seats import SqlSeats
from daybreak.state.sessions import SqlSessions
from daybreak.state.snapshots import SqlSnapshots
from daybreak.state.throttle import SqlThrottle
from daybreak.state.webhooks import SqlWebhooks


class SqlStores:
    """Stores of one transaction. Not usable after it ends."""

    __slots__ = (
        "api_tokens",
        "audit",
        "deliveries",
        "deltas",
        "directory",
        "erasures",
        "identities",
        "nodes",
        "notifications",
        "outbox",
        "passkeys",
        "password_resets",
        "run_requests",
        "seats",
        "sessions",
        "snapshots",
        "throttle",
        "webhooks",
    )

    def __init__(self, connection: sa.Connection) -> None:
        self.seats = SqlSeats(connection)
        self.identities = SqlIdentities(connection)
        self.sessions = SqlSessions(connection)
        self.passkeys = SqlPasskeys(connection)
        self.api_tokens = SqlApiTokens(connection)
        self.throttle = SqlThrottle(connection)
        self.audit = SqlAudit(connection)
        self.run_requests = SqlRunRequests(connection)
        self.snapshots = SqlSnapshots(connection)
        self.deltas = SqlDeltas(connection)
        self.erasures = SqlErasures(connection)
        self.directory = SqlDirectory(connection)
        self.nodes = SqlNodes(connection)
        self.outbox = SqlOutbox(connection)
        self.deliveries = SqlDeliveries(connection)
        self.webhooks = SqlWebhooks(connection)
        self.notifications = SqlNotifications(connection)
        self.password_resets = SqlPasswordResets(connection)
