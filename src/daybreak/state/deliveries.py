"""Repository of deliveries and their attempts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

import msgspec
import sqlalchemy as sa

from daybreak.domain.events import Attempt, Channel, Delivery, DeliveryState, EventType
from daybreak.state.outbox import KNOWN_TYPES
from daybreak.state.records import columns_of, values_of
from daybreak.state.schema import deliveries, delivery_attempts, webhooks
from daybreak.state.statements import Store


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Selects deliveries. Fields that are None match every delivery."""

    client_id: str | None = None
    endpoint_id: str | None = None
    seat_id: str | None = None
    type: EventType | None = None
    channel: Channel | None = None
    state: DeliveryState | None = None


@dataclass(frozen=True, slots=True)
class DeliveryBacklog:
    """Deliveries of a channel: pending ones, when the first of them was due, and those that failed.

    A mail that the mail server could not take is due since it was created: further attempts do not hide the outage.
    """

    pending: int
    due_at: datetime | None
    failed: int


_COLUMNS = columns_of(Delivery, deliveries)
_IS_KNOWN = deliveries.c.type.in_(KNOWN_TYPES)
# Replies of a mail server from here on are permanent (RFC 5321 §4.2.1).
_PERMANENT_REPLY = 500
_RETRIABLE = (DeliveryState.FAILED, DeliveryState.SKIPPED)


def _delivery_of(*row: Any) -> Delivery:
    found = Delivery(*row)
    return msgspec.structs.replace(found, type=EventType(found.type), state=DeliveryState(found.state))


class DeliveryStore(Store):
    """Deliveries of events and their attempts."""

    def add_all(self, added: Sequence[Delivery]) -> None:
        """Add deliveries. Those that exist stay unchanged."""
        if not added:
            return
        insert = self._insert_into(deliveries).on_conflict_do_nothing()
        self._execute(insert, [values_of(each) for each in added])

    def due_webhooks(self, now: datetime, *, failing: bool, exclude: Collection[str], limit: int) -> list[Delivery]:
        """Return the first due deliveries of endpoints that are not in `exclude`.

        `failing` selects endpoints whose last attempt failed, or else the others.
        """
        return self._all(
            sa.select(*_COLUMNS)
            .join(webhooks, webhooks.c.endpoint_id == deliveries.c.endpoint_id)
            .where(
                deliveries.c.channel == "webhook",
                deliveries.c.next_attempt_at <= now,
                _IS_KNOWN,
                deliveries.c.endpoint_id.not_in(list(exclude)),
                webhooks.c.failing_since.is_not(None) if failing else webhooks.c.failing_since.is_(None),
            )
            .order_by(deliveries.c.next_attempt_at, deliveries.c.delivery_id)
            .limit(limit),
            _delivery_of,
        )

    def due_mails(self, now: datetime, limit: int) -> list[Delivery]:
        """Return due mails: those to reset a password, whose link expires soon, then the first of each account, or of
        each seat without one, then the second of each.
        """
        is_patient = deliveries.c.type != EventType.PASSWORD_RESET_REQUESTED
        turn = sa.func.row_number().over(
            partition_by=sa.func.coalesce(deliveries.c.client_id, deliveries.c.seat_id),
            order_by=(deliveries.c.next_attempt_at, deliveries.c.delivery_id),
        )
        return self._all(
            sa.select(*_COLUMNS)
            .where(deliveries.c.channel == "mail", deliveries.c.next_attempt_at <= now, _IS_KNOWN)
            .order_by(is_patient, turn, deliveries.c.next_attempt_at, deliveries.c.delivery_id)
            .limit(limit),
            _delivery_of,
        )

    def get(self, delivery_id: str) -> Delivery | None:
        is_it = deliveries.c.delivery_id == delivery_id
        return self._first(sa.select(*_COLUMNS).where(is_it, _IS_KNOWN), _delivery_of)

    def list_recent(self, selected: DeliveryFilter, limit: int) -> list[Delivery]:
        """Return deliveries, newest first."""
        wanted = {name: value for name, value in values_of(selected).items() if value is not None}
        newest = deliveries.c.created_at.desc(), deliveries.c.delivery_id
        found = sa.select(*_COLUMNS).filter_by(**wanted).where(_IS_KNOWN)
        return self._all(found.order_by(*newest).limit(limit), _delivery_of)

    def backlog(self, failed_since: datetime) -> dict[str, DeliveryBacklog]:
        """Return the pending deliveries of each channel, and how many failed since that instant."""
        # A refusal of the recipient or the content has another reply, or is final.
        is_without_server = sa.and_(
            deliveries.c.channel == "mail",
            deliveries.c.attempts > 0,
            # Not of an attempt before an operator retried the mail.
            deliveries.c.detail != "",
            sa.or_(deliveries.c.status.is_(None), deliveries.c.status >= _PERMANENT_REPLY),
        )
        due_at = sa.case((is_without_server, deliveries.c.created_at), else_=deliveries.c.next_attempt_at)
        pending = self._execute(
            sa.select(deliveries.c.channel, sa.func.count(), sa.func.min(due_at))
            .where(deliveries.c.next_attempt_at.is_not(None), _IS_KNOWN)
            .group_by(deliveries.c.channel)
        )
        failed = self._execute(
            sa.select(deliveries.c.channel, sa.func.count())
            # A literal: the index of failed deliveries is not used with a parameter.
            .where(deliveries.c.state == sa.literal_column("'failed'"), deliveries.c.finished_at >= failed_since)
            .group_by(deliveries.c.channel)
        )
        pending_of = {channel: (count, due_at) for channel, count, due_at in pending}
        failed_of = {row[0]: row[1] for row in failed}
        return {
            channel: DeliveryBacklog(*pending_of.get(channel, (0, None)), failed_of.get(channel, 0))
            for channel in get_args(Channel)
        }

    def attempts(self, delivery_ids: Sequence[str]) -> dict[str, list[Attempt]]:
        """Return the attempts of each delivery, oldest first."""
        found: dict[str, list[Attempt]] = {delivery_id: [] for delivery_id in delivery_ids}
        rows = self._execute(
            sa.select(*delivery_attempts.columns)
            .where(delivery_attempts.c.delivery_id.in_(list(delivery_ids)))
            .order_by(delivery_attempts.c.delivery_id, delivery_attempts.c.number)
        )
        for delivery_id, *attempt in rows:
            found[delivery_id].append(Attempt(*attempt))
        return found

    def record(
        self, delivery: Delivery, attempt: Attempt, state: DeliveryState, *, next_attempt_at: datetime | None = None
    ) -> bool:
        """Record an attempt and its result. Returns False, and changes nothing, if it was recorded before."""
        is_new = self._change(
            deliveries,
            delivery.delivery_id,
            deliveries.c.attempts == attempt.number - 1,
            deliveries.c.next_attempt_at.is_not(None),
            state=state,
            attempts=attempt.number,
            next_attempt_at=next_attempt_at,
            finished_at=None if next_attempt_at is not None else attempt.at,
            status=attempt.status,
            detail=attempt.detail,
        )
        if not is_new:
            return False
        self._execute(sa.insert(delivery_attempts).values(delivery_id=delivery.delivery_id, **values_of(attempt)))
        return True

    def skip(self, delivery: Delivery, now: datetime, reason: str) -> None:
        """End a delivery without an attempt."""
        self._end(DeliveryState.SKIPPED, now, reason, deliveries.c.delivery_id == delivery.delivery_id)

    def retry(self, delivery_id: str, now: datetime) -> bool:
        """Make a failed or skipped delivery due now. Returns False for any other delivery."""
        due = {"state": DeliveryState.PENDING, "next_attempt_at": now, "finished_at": None, "detail": ""}
        return self._change(deliveries, delivery_id, deliveries.c.state.in_(_RETRIABLE), **due)

    def end_pending(self, endpoint_id: str, now: datetime, reason: str) -> int:
        """Change the pending deliveries of an endpoint to failed, and return their number."""
        return self._end(DeliveryState.FAILED, now, reason, deliveries.c.endpoint_id == endpoint_id)

    def _end(self, state: DeliveryState, now: datetime, reason: str, which: sa.ColumnElement[bool]) -> int:
        return self._changes(
            sa.update(deliveries)
            .where(which, deliveries.c.next_attempt_at.is_not(None))
            .values(state=state, next_attempt_at=None, finished_at=now, detail=reason)
        )
