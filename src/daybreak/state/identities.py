"""Repository of the users of single sign-on providers."""

from __future__ import annotations

import sqlalchemy as sa

from daybreak.domain.identity import SeatIdentity
from daybreak.state.records import columns_of, values_of
from daybreak.state.schema import seat_identities
from daybreak.state.statements import Store

_IDENTITIES = sa.select(*columns_of(SeatIdentity, seat_identities)).order_by(
    seat_identities.c.issuer, seat_identities.c.subject
)


class IdentityStore(Store):
    """Users of single sign-on providers, and the seats they sign in."""

    def find(self, issuer: str, subject: str) -> SeatIdentity | None:
        is_it = seat_identities.c.issuer == issuer, seat_identities.c.subject == subject
        return self._first(_IDENTITIES.where(*is_it), SeatIdentity)

    def list_for(self, seat_id: str) -> list[SeatIdentity]:
        """Return the users bound to a seat, by issuer and subject."""
        return self._all(_IDENTITIES.where(seat_identities.c.seat_id == seat_id), SeatIdentity)

    def list_all(self) -> list[SeatIdentity]:
        return self._all(_IDENTITIES, SeatIdentity)

    def add(self, identity: SeatIdentity) -> None:
        """Bind a user. Raises Conflict when the user is bound already."""
        self._execute(sa.insert(seat_identities), values_of(identity))

    def remove_all(self, seat_id: str) -> int:
        """Remove every user bound to a seat and return their number."""
        return self._changes(sa.delete(seat_identities).where(seat_identities.c.seat_id == seat_id))
