"""Repository of the outbox, and of the lease of its deliverer."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from daybreak.domain.clock import MAX_DIFFERENCE
from daybreak.domain.events import Event, EventType
from daybreak.state.records import columns_of, values_of
from daybreak.state.schema import deliveries, leases, outbox
from daybreak.state.statements import Store


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """An event whose deliveries are incomplete. `cursor` is the last recipient that has one."""

    event: Event
    cursor: str


_COLUMNS = columns_of(Event, outbox)
_LEASE = "deliverer"
KNOWN_TYPES = tuple(EventType)
"""A later version may have recorded others, before an operator returned to this one."""


def _event_of(event_id: str, type_: str, *rest: Any) -> Event:
    return Event(event_id, EventType(type_), *rest)


class OutboxStore(Store):
    """Events, written in the transactions that cause them, and the lease of the deliverer."""

    def add(self, event: Event) -> bool:
        """Add an event. Returns False when it was added before."""
        insert = self._insert_into(outbox).on_conflict_do_nothing()
        added = self._execute(
            insert.returning(outbox.c.event_id), values_of(event) | {"data": dict(event.data), "cursor": ""}
        )
        return added.first() is not None

    def delete_without_seat(self, event_id: str) -> None:
        """Delete an event if it has no seat."""
        self._execute(sa.delete(outbox).where(outbox.c.event_id == event_id, outbox.c.seat_id.is_(None)))

    def latest(self, type_: EventType) -> Event | None:
        """Return the most recent event of a type."""
        found = sa.select(*_COLUMNS).where(outbox.c.type == type_).order_by(outbox.c.at.desc()).limit(1)
        return self._first(found, _event_of)

    def incomplete(self, limit: int) -> list[OutboxEntry]:
        """Return events without all their deliveries: the oldest of each account or seat, then the second of each."""
        turn = sa.func.row_number().over(
            partition_by=sa.func.coalesce(outbox.c.client_id, outbox.c.seat_id, ""),
            order_by=(outbox.c.at, outbox.c.event_id),
        )
        rows = self._execute(
            sa.select(*_COLUMNS, outbox.c.cursor)
            .where(outbox.c.completed_at.is_(None), outbox.c.type.in_(KNOWN_TYPES))
            .order_by(turn, outbox.c.at, outbox.c.event_id)
            .limit(limit)
        )
        return [OutboxEntry(_event_of(*row[:-1]), row[-1]) for row in rows]

    def backlog(self) -> tuple[int, datetime | None]:
        """Return the number of events without all their deliveries, and the time of the oldest."""
        count, oldest = self._execute(
            sa.select(sa.func.count(), sa.func.min(outbox.c.at)).where(
                outbox.c.completed_at.is_(None), outbox.c.type.in_(KNOWN_TYPES)
            )
        ).one()
        return count, oldest

    def advance(self, event_id: str, cursor: str) -> None:
        """Record that every recipient up to `cursor` has a delivery."""
        self._change(outbox, event_id, cursor=cursor)

    def complete(self, event_id: str, now: datetime) -> None:
        """Record that every recipient has a delivery."""
        self._change(outbox, event_id, completed_at=now)

    def has_work(self, now: datetime) -> bool:
        """Return whether an event is incomplete or a delivery is due."""
        incomplete = sa.exists().where(outbox.c.completed_at.is_(None), outbox.c.type.in_(KNOWN_TYPES))
        due = sa.or_(
            *(
                sa.exists().where(
                    deliveries.c.channel == channel,
                    deliveries.c.next_attempt_at <= now,
                    deliveries.c.type.in_(KNOWN_TYPES),
                )
                for channel in ("mail", "webhook")
            )
        )
        return bool(self._execute(sa.select(sa.or_(incomplete, due))).scalar())

    def take_lease(self, holder: str, now: datetime, until: datetime) -> bool:
        """Take or renew the lease of the deliverer. Return False when another process has it."""
        insert = self._insert_into(leases)
        taken = self._execute(
            insert.on_conflict_do_update(
                index_elements=["name"],
                set_={"holder": insert.excluded.holder, "until": insert.excluded.until},
                where=sa.or_(leases.c.holder == holder, leases.c.until <= now, leases.c.until > until + MAX_DIFFERENCE),
            ).returning(leases.c.name),
            {"name": _LEASE, "holder": holder, "until": until},
        )
        return taken.first() is not None

    def release_lease(self, holder: str) -> None:
        """End the lease, if `holder` has it."""
        self._execute(sa.delete(leases).where(leases.c.name == _LEASE, leases.c.holder == holder))

    def delete_before(self, before: datetime) -> int:
        """Delete events before that instant, with their finished deliveries, and return the number of events.

        Events with pending deliveries stay.
        """
        pending = sa.exists().where(
            deliveries.c.event_id == outbox.c.event_id, deliveries.c.next_attempt_at.is_not(None)
        )
        return self._changes(sa.delete(outbox).where(outbox.c.completed_at < before, sa.not_(pending)))
