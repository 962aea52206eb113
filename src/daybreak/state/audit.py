"""Repository of the audit trail. Events can only be appended, and deleted once their retention is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from daybreak.credentials.redaction import redact, redact_values
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.state.columns import instant_text, json_text
from daybreak.state.schema import audit_events, audit_retention
from daybreak.state.statements import BulkInsert

_INSERT = BulkInsert(audit_events)


class SqlAudit:
    """AuditStore on a connection with an open transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def append(self, event: AuditEvent) -> None:
        self.append_all((event,))

    def append_all(self, events: Sequence[AuditEvent]) -> None:
        """Append events, without the secrets that clients put into texts."""
        if not events:
            return
        encode_instant = instant_text if self._connection.dialect.name == "sqlite" else _unchanged
        _INSERT.run(
            self._connection,
            [
                (
                    encode_instant(event.at),
                    event.action,
                    event.result,
                    redact(event.actor),
                    event.seat_id,
                    event.client_id,
                    event.subject,
                    event.address,
                    redact(event.user_agent),
                    redact(event.request_id),
                    json_text(redact_values(event.details)),
                )
                for event in events
            ],
        )

    def read(self, query: AuditQuery) -> list[AuditEvent]:
        columns = audit_events.c
        statement = sa.select(*columns)
        for column, value in (
            (columns.client_id, query.client_id),
            (columns.seat_id, query.seat_id),
            (columns.actor, query.actor),
        ):
            if value is not None:
                statement = statement.where(column == value)
        if query.action is not None:
            statement = statement.where(_matches_action(query.action))
        if query.since is not None:
            statement = statement.where(columns.at >= query.since)
        if query.until is not None:
            statement = statement.where(columns.at < query.until)
        order: sa.ColumnElement[Any] = columns.event_id.desc() if query.newest_first else columns.event_id
        if query.after_id is not None:
            after = columns.event_id < query.after_id if query.newest_first else columns.event_id > query.after_id
            statement = statement.where(after)
        return [_event_of(row) for row in self._connection.execute(statement.order_by(order).limit(query.limit))]

    def delete_before(self, before: datetime, *, at_most: int = 10_000) -> int:
        # The triggers of the audit trail allow deletions only before `keep_from`.
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


def _matches_action(action: str) -> sa.ColumnElement[bool]:
    if action[-1:] in (".", "*"):
        return audit_events.c.action.startswith(action.rstrip("*"), autoescape=True)
    return audit_events.c.action == action


def _unchanged(at: datetime) -> datetime:
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
