"""Repository of the audit trail. Events can only be appended, and deleted once their retention is over."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from daybreak.credentials.redaction import redact, redact_values
from daybreak.domain.audit import SIGN_INS, AuditEvent, AuditQuery
from daybreak.state.columns import instant_text, json_text
from daybreak.state.records import columns_of
from daybreak.state.schema import audit_events, audit_retention, grants
from daybreak.state.statements import BulkInsert, Store

_INSERT = BulkInsert(audit_events)


class AuditStore(Store):
    """The audit trail, which is append-only."""

    def append(self, event: AuditEvent) -> None:
        self.append_all((event,))

    def append_all(self, events: Sequence[AuditEvent]) -> None:
        """Append events, without the secrets that clients put into texts."""
        if not events:
            return
        encode_instant = instant_text if self._connection.dialect.name == "sqlite" else (lambda at: at)
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
        """Return the events that match `query`, in the order that it specifies."""
        order = audit_events.c.event_id.desc() if query.newest_first else audit_events.c.event_id.asc()
        parts = [_ids(part, query).order_by(order).limit(query.offset + query.limit) for part in _parts(query)]
        # The ids come from one index for each part. A condition with OR would read the whole trail.
        ids = sa.union_all(*(sa.select(part.subquery().c.event_id) for part in parts)).subquery()
        statement = sa.select(*columns_of(AuditEvent, audit_events)).where(
            audit_events.c.event_id.in_(sa.select(ids.c.event_id))
        )
        return self._all(statement.order_by(order).offset(query.offset).limit(query.limit), AuditEvent)

    def count(self, query: AuditQuery, *, at_most: int) -> int:
        """Return the number of events that match the filters of `query`, or `at_most` if there are more."""
        parts = [_ids(part, query).limit(at_most).subquery() for part in _parts(query)]
        return min(sum(map(self._number_of, parts)), at_most)

    def delete_before(self, before: datetime, *, at_most: int = 10_000) -> int:
        """Delete events before that instant, oldest first, and return how many.

        Repeat until fewer than `at_most` were deleted. The database refuses to delete any other event.
        """
        # The triggers of the audit trail allow deletions only before `keep_from`.
        self._execute(
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
        return self._changes(sa.delete(audit_events).where(audit_events.c.event_id.in_(oldest)))


def _parts(query: AuditQuery) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of the events of an account, and of sign-ins without an account."""
    columns = audit_events.c
    if query.client_id is None:
        return [sa.true()]
    parts: list[sa.ColumnElement[bool]] = [columns.client_id == query.client_id]
    if query.sign_ins:
        seats = sa.select(grants.c.seat_id).where(grants.c.client_id == query.client_id)
        parts.append(sa.and_(columns.client_id.is_(None), columns.action.in_(SIGN_INS), columns.seat_id.in_(seats)))
    return parts


def _ids(part: sa.ColumnElement[bool], query: AuditQuery) -> sa.Select[tuple[int]]:
    """Select the ids of the events of one part that match the other filters."""
    columns = audit_events.c
    filters: list[tuple[object, Callable[[Any], sa.ColumnElement[bool]]]] = [
        (query.seat_id, columns.seat_id.__eq__),
        (query.subject, columns.subject.__eq__),
        (query.actor, columns.actor.__eq__),
        (query.actor_contains, lambda text: columns.actor.icontains(text, autoescape=True)),
        (query.action, _matches_action),
        (query.succeeded, lambda succeeded: columns.result == "ok" if succeeded else columns.result != "ok"),
        (query.since, columns.at.__ge__),
        (query.until, columns.at.__lt__),
        (query.up_to_id, columns.event_id.__le__),
        (query.after_id, columns.event_id.__lt__ if query.newest_first else columns.event_id.__gt__),
    ]
    conditions = (condition(value) for value, condition in filters if value is not None)
    return sa.select(columns.event_id).where(part, *conditions)


def _matches_action(action: str) -> sa.ColumnElement[bool]:
    if action[-1:] in (".", "*"):
        return audit_events.c.action.startswith(action.rstrip("*"), autoescape=True)
    return audit_events.c.action == action
