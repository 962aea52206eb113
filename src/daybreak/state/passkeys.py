"""Repository of passkeys, and of the challenges that sessions wait for."""

from datetime import datetime

import sqlalchemy as sa

from daybreak.domain.identity import Passkey
from daybreak.state.records import columns_of, values_of
from daybreak.state.schema import passkeys, sessions
from daybreak.state.statements import Store

_COLUMNS = columns_of(Passkey, passkeys)


class PasskeyStore(Store):
    """Passkeys of seats, and the challenges of sessions as hex."""

    def add(self, passkey: Passkey) -> bool:
        """Add a passkey. Returns False when its credential id is already stored, for any seat."""
        insert = self._insert_into(passkeys).on_conflict_do_nothing()
        # SQLAlchemy reports the number of inserted rows on some drivers only.
        added = self._execute(insert.returning(passkeys.c.credential_id), values_of(passkey))
        return added.first() is not None

    def list_for(self, seat_id: str) -> list[Passkey]:
        """Return the passkeys of a seat, oldest first."""
        own = sa.select(*_COLUMNS).where(passkeys.c.seat_id == seat_id)
        return self._all(own.order_by(passkeys.c.created_at, passkeys.c.credential_id), Passkey)

    def find(self, credential_id: str, seat_id: str) -> Passkey | None:
        is_it = passkeys.c.credential_id == credential_id, passkeys.c.seat_id == seat_id
        return self._first(sa.select(*_COLUMNS).where(*is_it), Passkey)

    def record_use(self, passkey: Passkey, now: datetime) -> bool:
        """Store the signature counter of the passkey and the time of its use, atomically.

        Returns False when the counter did not increase (WebAuthn §6.1.1), or the passkey was removed. A counter that
        is always 0 is accepted.
        """
        increased = passkeys.c.sign_count < passkey.sign_count
        without_counter = sa.and_(passkeys.c.sign_count == 0, sa.literal(passkey.sign_count) == 0)
        used = sa.update(passkeys).where(*_is(passkey), sa.or_(increased, without_counter))
        return self._changes(used.values(sign_count=passkey.sign_count, last_used_at=now)) == 1

    def rename(self, passkey: Passkey, name: str) -> bool:
        return self._changes(sa.update(passkeys).where(*_is(passkey)).values(name=name)) == 1

    def remove(self, passkey: Passkey) -> bool:
        return self._changes(sa.delete(passkeys).where(*_is(passkey))) == 1

    def set_challenge(self, sid: str, challenge: str, expires_at: datetime) -> None:
        """Store the challenge of a session. It replaces an earlier one."""
        stored = f"{int(expires_at.timestamp())}.{challenge}"
        self._change(sessions, sid, passkey_challenge=stored)

    def take_challenge(self, sid: str, now: datetime) -> str | None:
        """Return and delete the challenge of a session, atomically: only one caller receives it.

        Returns None when there is none, or it has expired.
        """
        stored = self._execute(sa.select(sessions.c.passkey_challenge).where(sessions.c.sid == sid)).scalar()
        if stored is None:
            return None
        # Of parallel transactions that read the same challenge, one deletes it.
        taken = self._change(sessions, sid, sessions.c.passkey_challenge == stored, passkey_challenge=None)
        expires_at, _, challenge = stored.partition(".")
        return challenge if taken and int(expires_at) > now.timestamp() else None


def _is(passkey: Passkey) -> tuple[sa.ColumnElement[bool], ...]:
    return passkeys.c.credential_id == passkey.credential_id, passkeys.c.seat_id == passkey.seat_id
