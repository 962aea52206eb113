"""The audit trail: appended to, read, and forgotten only past the kept time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from daybreak.domain.audit import AuditEvent
from daybreak.state.columns import instant_text, json_text
from daybreak.state.schema import audit_events, audit_retention
from daybreak.state.statements import BulkInsert

_INSERT = BulkInsert(audit_events)


class SqlAudit:
    """The AuditStore on a connection with a transaction open."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def append(self, event: AuditEvent) -> None:
        self.append_all((event,))

    def append_all(self, events: Sequence[AuditEvent]) -> None:
        if not events:
            return
        kept = instant_text if self._connection.dialect.name == "sqlite" else _as_is
        _INSERT.run(
            self._connection,
            [
                (
                    kept(event.at),
                    event.action,
                    event.result,
                    event.actor,
                    event.seat_id,
                    event.client_id,
                    event.subject,
                    event.address,
                    event.user_agent,
                    event.request_id,
                    json_text(event.details),
                )
                for event in events
            ],
        )

    def read(
        self,
        *,
        client_id: str | None = None,
        seat_id: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after_id: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> list[AuditEvent]:
        columns = audit_events.c
        statement = sa.select(*columns)
        for column, value in ((columns.client_id, client_id), (columns.seat_id, seat_id), (columns.actor, actor)):
            if value is not None:
                statement = statement.where(column == value)
        if action is not None and action[-1:] in (".", "*"):
            statement = statement.where(columns.action.startswith(action.rstrip("*"), autoescape=True))
        elif action is not None:
            statement = statement.where(columns.action == action)
        if since is not None:
            statement = statement.where(columns.at >= since)
        if until is not None:
            statement = statement.where(columns.at < until)
        if after_id is not None:
            statement = statement.where(columns.event_id < after_id if newest_first else columns.event_id > after_id)
        order = columns.event_id.desc() if newest_first else columns.event_id
        return [_event_of(row) for row in self._connection.execute(statement.order_by(order).limit(limit))]

    def forget(self, before: datetime, *, at_most: int = 10_000) -> int:
        """Deletes events before that instant, the oldest first; how many. Call it again until it
        deletes fewer than `at_most`. The instant is written down first: the database refuses to
        delete any event that is not before it, whoever asks."""
        self._connection.execute(
            sa.update(audit_retention)
            .where(sa.or_(audit_retention.c.keep_from.is_(None), audit_retention.c.keep_from < before))
            .values(keep_from=before)
        )
        oldest = (
            sa.select(audit_events.c.event_id)
            .where(audit_events.c.at < before)
            .order_by(audit_events.c.event_id)
            .limit(at_most)
        )
        return self._connection.execute(sa.delete(audit_events).where(audit_events.c.event_id.in_(oldest))).rowcount


def _as_is(at: datetime) -> datetime:
    return at


def _event_of(row: Sequence[Any]) -> AuditEvent:
    event_id, at, *rest, details = row
    action, result, actor, seat_id, client_id, subject, address, user_agent, request_id = rest
    return AuditEvent(
        at=at,
        action=action,
        result=result,
        actor=actor,
        seat_id=seat_id,
        client_id=client_id,
        subject=subject,
        address=address,
        user_agent=user_agent,
        request_id=request_id,
        details=details,
        event_id=event_id,
    )
