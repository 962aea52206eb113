"""Revocations of keys that this process has not applied yet.

They are counted by the statement that resolves a session or an API token, and elsewhere by a separate statement.
"""

from __future__ import annotations

from functools import partial

from daybreak.credentials.keyring import KeyringFile
from daybreak.state.stores import State, Stores


def apply_revocations(keyring: KeyringFile, stores: Stores) -> None:
    """Have the keyring refuse the keys that were revoked on any node."""
    if stores.revoked_keys.count() != keyring.revoked_count:
        keyring.revoke(stores.revoked_keys.kids())


async def apply_counted(keyring: KeyringFile, state: State, revoked_count: int) -> bool:
    """Apply the revocations if that number of keys is new. What was verified before must then be verified again."""
    if revoked_count == keyring.revoked_count:
        return False
    await state.aread(partial(apply_revocations, keyring))
    return True
