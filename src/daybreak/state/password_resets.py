"""Repository of links that set a new password."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from daybreak.state.columns import KEY, Instant
from daybreak.state.schema import metadata, seats
from daybreak.state.statements import upsert


@dataclass(frozen=True, slots=True)
class PasswordReset:
    """A link that sets a new password. `digest` is the SHA-256 of its token in hex."""

    digest: str
    seat_id: str
    created_at: datetime
    expires_at: datetime


password_resets = sa.Table(
    "password_resets",
    metadata,
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("digest", KEY, nullable=False, unique=True),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
)


class PasswordResetStore:
    """Unused links that set a new password: at most one for each seat."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def replace(self, reset: PasswordReset) -> None:
        """Store a reset. It replaces an earlier one of the seat."""
        row = {
            "seat_id": reset.seat_id,
            "digest": reset.digest,
            "created_at": reset.created_at,
            "expires_at": reset.expires_at,
        }
        upsert(self._connection, password_resets, [row], keys=("seat_id",))

    def find(self, digest: str, now: datetime) -> str | None:
        """Return the seat of a valid reset.

        A reset is invalid after its expiry, and after a change of the password.
        """
        found: str | None = self._connection.execute(
            sa.select(password_resets.c.seat_id).where(*_is_valid(digest, now))
        ).scalar()
        return found

    def use(self, digest: str, now: datetime) -> str | None:
        """Delete a valid reset and return its seat, atomically: only one caller receives it."""
        used: str | None = self._connection.execute(
            sa.delete(password_resets).where(*_is_valid(digest, now)).returning(password_resets.c.seat_id)
        ).scalar()
        return used

    def delete_expired(self, now: datetime) -> int:
        return self._connection.execute(sa.delete(password_resets).where(password_resets.c.expires_at <= now)).rowcount


def _is_valid(digest: str, now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    changed_since = sa.exists().where(
        seats.c.seat_id == password_resets.c.seat_id, seats.c.password_changed_at > password_resets.c.created_at
    )
    return password_resets.c.digest == digest, password_resets.c.expires_at > now, sa.not_(changed_since)
