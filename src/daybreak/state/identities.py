"""Repository of the users of single sign-on providers."""

from __future__ import annotations

import sqlalchemy as sa

from daybreak.domain.identity import SeatIdentity
from daybreak.state.records import IDENTITY_COLUMNS, identity_of
from daybreak.state.schema import seat_identities


class IdentityStore:
    """Users of single sign-on providers, and the seats they sign in."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def find(self, issuer: str, subject: str) -> SeatIdentity | None:
        row = self._connection.execute(
            sa.select(*IDENTITY_COLUMNS).where(seat_identities.c.issuer == issuer, seat_identities.c.subject == subject)
        ).first()
        return None if row is None else identity_of(row)

    def list_for(self, seat_id: str) -> list[SeatIdentity]:
        """Return the users bound to a seat, by issuer and subject."""
        rows = self._connection.execute(
            sa.select(*IDENTITY_COLUMNS)
            .where(seat_identities.c.seat_id == seat_id)
            .order_by(seat_identities.c.issuer, seat_identities.c.subject)
        )
        return [identity_of(row) for row in rows]

    def list_all(self) -> list[SeatIdentity]:
        rows = self._connection.execute(
            sa.select(*IDENTITY_COLUMNS).order_by(seat_identities.c.issuer, seat_identities.c.subject)
        )
        return [identity_of(row) for row in rows]

    def add(self, identity: SeatIdentity) -> None:
        """Bind a user. Raises Conflict when the user is bound already."""
        self._connection.execute(
            sa.insert(seat_identities),
            {
                "issuer": identity.issuer,
                "subject": identity.subject,
                "seat_id": identity.seat_id,
                "bound_at": identity.bound_at,
            },
        )

    def remove_all(self, seat_id: str) -> int:
        """Remove every user bound to a seat and return their number."""
        return self._connection.execute(sa.delete(seat_identities).where(seat_identities.c.seat_id == seat_id)).rowcount
