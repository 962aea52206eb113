"""Stored statements: in which pack each one is, and reading them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from daybreak.catalogue.formats import STATEMENTS
from daybreak.domain.signing import Edition, SignedSnapshot
from daybreak.filestore.file_keys import file_key
from daybreak.filestore.file_store import FileStore
from daybreak.proof.statement_pack import SignedStatement, read_digests, read_statement
from daybreak.state.stores import Stores


def pack_name(number: int) -> str:
    """Return the name of a pack in the place of a resource."""
    return f"statements_{number:06}"


def pack_key(signed: SignedSnapshot, number: int) -> str:
    """Return the key of a pack of the first revisions."""
    return file_key(signed.snapshot_id, "", pack_name(number), STATEMENTS.name, signed.name)


def statement_key(stores: Stores, signed: SignedSnapshot, client_id: str, revision: int | None = None) -> str | None:
    """Return the key of the pack with a statement of an account, None for an unknown revision. The latest by default.

    The pack may lack the account.
    """
    revisions = {each.edition.revision: each.key for each in stores.signatures.revisions(signed.snapshot_id, client_id)}
    wanted = max(revisions, default=1) if revision is None else revision
    if wanted != 1:
        return revisions.get(wanted)
    number = bisect_right(signed.starts, client_id) - 1
    return None if number < 0 else pack_key(signed, number)


def read_stored(store: FileStore, key: str, client_id: str) -> SignedStatement | None:
    """Return the statement of an account from a pack. Raises FileStoreError, Unavailable."""
    return read_statement(lambda start, length: b"".join(store.read(key, start, length)), client_id)


def completeness(signed: SignedStatement) -> dict[str, Any]:
    """Return the section about row accounting."""
    found: dict[str, Any] = json.loads(signed.content)["predicate"]["completeness"]
    return found


class StoredStatements:
    """The statements of a snapshot, read in the order of the accounts: one pack is in memory."""

    def __init__(self, store: FileStore, signed: SignedSnapshot) -> None:
        self._store, self._signed = store, signed
        self._number = -1
        self._pack = b""

    def completeness(self, client_id: str) -> dict[str, Any] | None:
        """Return the section about row accounting of an account. Raises FileStoreError, Unavailable."""
        number = bisect_right(self._signed.starts, client_id) - 1
        if number < 0:
            return None
        self._load(number)
        found = read_statement(lambda start, length: self._pack[start : start + length], client_id)
        return None if found is None else completeness(found)

    def editions(self) -> Iterator[tuple[str, Edition]]:
        """Yield the first edition of each account. Raises FileStoreError, Unavailable."""
        for number in range(len(self._signed.starts)):
            self._load(number)
            for client_id, sha256 in read_digests(lambda start, length: self._pack[start : start + length]):
                yield client_id, Edition(self._signed.version, 1, sha256)

    def _load(self, number: int) -> None:
        if number != self._number:
            self._pack = b"".join(self._store.read(pack_key(self._signed, number)))
            self._number = number
