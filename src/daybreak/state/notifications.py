"""Repository of the events that seats receive by mail."""

from collections.abc import Mapping

import sqlalchemy as sa

from daybreak.domain.events import ACCOUNT_EVENTS, DEFAULT_EVENTS, OPERATOR_EVENTS, EventType
from daybreak.domain.identity import Grant
from daybreak.state.outbox import KNOWN_TYPES
from daybreak.state.records import GRANT_COLUMNS
from daybreak.state.schema import accounts, grants, notification_choices, seats
from daybreak.state.statements import Store


class NotificationStore(Store):
    """The events that each seat receives by mail."""

    def choices(self, seat_id: str) -> dict[EventType, bool]:
        """Return what the seat has chosen. Types that are missing have their default."""
        rows = self._execute(
            sa.select(notification_choices.c.type, notification_choices.c.enabled).where(
                notification_choices.c.seat_id == seat_id
            )
        )
        return {EventType(type_): enabled for type_, enabled in rows if type_ in KNOWN_TYPES}

    def choose(self, seat_id: str, choices: Mapping[EventType, bool]) -> None:
        rows = [{"seat_id": seat_id, "type": type_, "enabled": enabled} for type_, enabled in choices.items()]
        self._upsert(notification_choices, rows)

    def managers(self, client_id: str) -> list[str]:
        """Return the ids of enabled seats that are owners or admins of an account, in order."""
        found = self._all(
            sa.select(*GRANT_COLUMNS)
            .join(seats, seats.c.seat_id == grants.c.seat_id)
            .where(grants.c.client_id == client_id, sa.not_(seats.c.disabled))
            .order_by(seats.c.seat_id),
            Grant,
        )
        return [grant.seat_id for grant in found if grant.manages_account]

    def recipients(self, type_: EventType, after_id: str, limit: int) -> list[str]:
        """Return the ids, greater than `after_id`, of enabled seats that receive a type of event, in order.

        Account events are for seats that may download files of an active account, operator events for operators.
        """
        chosen = sa.and_(notification_choices.c.seat_id == seats.c.seat_id, notification_choices.c.type == type_)
        by_default = sa.true() if type_ in DEFAULT_EVENTS else sa.false()
        downloads = (
            sa.exists()
            .where(grants.c.seat_id == seats.c.seat_id, grants.c.data_export)
            .where(grants.c.client_id == accounts.c.client_id, accounts.c.active)
        )
        groups: list[sa.ColumnElement[bool]] = []
        if type_ in ACCOUNT_EVENTS:
            groups.append(downloads)
        if type_ in OPERATOR_EVENTS:
            groups.append(seats.c.operator)
        rows = self._execute(
            sa.select(seats.c.seat_id)
            .outerjoin(notification_choices, chosen)
            .where(
                seats.c.seat_id > after_id,
                sa.not_(seats.c.disabled),
                sa.or_(notification_choices.c.enabled, sa.and_(notification_choices.c.enabled.is_(None), by_default)),
                sa.or_(sa.false(), *groups),
            )
            .order_by(seats.c.seat_id)
            .limit(limit)
        )
        return [row[0] for row in rows]
