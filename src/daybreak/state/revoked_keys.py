"""Repository of the revoked keys of the keyring, on which all nodes agree. No row is ever deleted."""

from datetime import datetime

import sqlalchemy as sa

from daybreak.state.service_tables import revoked_keys
from daybreak.state.statements import PreparedRead, Store

_COUNT = PreparedRead(revoked_keys, [sa.func.count()])


class RevokedKeyStore(Store):
    """Ids of keys that no longer verify or sign anything."""

    def add(self, kid: str, now: datetime) -> bool:
        """Record a revocation. Returns False for a key that was revoked before."""
        if kid in self.kids():
            return False
        self._upsert(revoked_keys, [{"kid": kid, "revoked_at": now}])
        return True

    def count(self) -> int:
        """Return the number of revoked keys. Every request reads it."""
        row = _COUNT.first(self._connection)
        assert row is not None
        return int(row[0])

    def kids(self) -> frozenset[str]:
        return frozenset(self._connection.scalars(sa.select(revoked_keys.c.kid)))
