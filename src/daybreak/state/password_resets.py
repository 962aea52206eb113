"""Repository of links that set a new password."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from daybreak.domain.events import EventType
from daybreak.state.records import values_of
from daybreak.state.schema import seats
from daybreak.state.service_tables import password_resets
from daybreak.state.statements import Store


@dataclass(frozen=True, slots=True)
class PasswordReset:
    """A link that sets a new password. `digest` is the SHA-256 of its token in hex.

    `type` is that of the mail, `email` the address that it is sent to, folded: a change of case keeps the link.
    """

    digest: str
    seat_id: str
    type: EventType
    email: str
    requested_at: datetime
    expires_at: datetime


class PasswordResetStore(Store):
    """Unused links that set a new password: at most one of each type for a seat."""

    def replace(self, reset: PasswordReset) -> None:
        """Store a reset. It replaces an earlier one of the same type."""
        self._upsert(password_resets, [values_of(reset)])

    def find(self, digest: str, now: datetime) -> str | None:
        """Return the seat of a valid reset.

        A reset is invalid after its expiry, after the credentials of the seat ended, and with another email.
        """
        return self._execute(sa.select(password_resets.c.seat_id).where(*_is_valid(digest, now))).scalar()

    def use(self, digest: str, now: datetime) -> str | None:
        """Delete a valid reset and return its seat, atomically: only one caller receives it."""
        used = sa.delete(password_resets).where(*_is_valid(digest, now)).returning(password_resets.c.seat_id)
        return self._execute(used).scalar()

    def delete_expired(self, now: datetime) -> int:
        return self._changes(sa.delete(password_resets).where(password_resets.c.expires_at <= now))


def _is_valid(digest: str, now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    ended_at, requested_at = seats.c.links_ended_at, password_resets.c.requested_at
    is_bound = sa.exists().where(
        seats.c.seat_id == password_resets.c.seat_id,
        seats.c.email_folded == password_resets.c.email,
        sa.not_(seats.c.disabled),
        sa.or_(ended_at.is_(None), ended_at < requested_at),
    )
    return password_resets.c.digest == digest, password_resets.c.expires_at > now, is_bound
