"""Stored statements: in which pack each one is, and reading them."""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

import msgspec
import structlog

from daybreak.domain.errors import FileStoreError
from daybreak.domain.signing import Edition, SignedSnapshot, StatementPack
from daybreak.filestore.file_store import FileStore
from daybreak.proof.statement_pack import SignedStatement, read_digests, read_statement
from daybreak.state.stores import Stores

_log = structlog.get_logger("daybreak.snapshots")


def statement_key(stores: Stores, signed: SignedSnapshot, client_id: str, revision: int | None = None) -> str | None:
    """Return the key of the pack with a statement of an account, None for an unknown revision. The latest by default.

    The pack may lack the account.
    """
    revisions = {
        each.edition.revision: each.pack.key for each in stores.signatures.revisions(signed.snapshot_id, client_id)
    }
    wanted = max(revisions, default=1) if revision is None else revision
    if wanted != 1:
        return revisions.get(wanted)
    pack = _pack_of(signed, client_id)
    return None if pack is None else pack.key


def _pack_of(signed: SignedSnapshot, client_id: str) -> StatementPack | None:
    """Return the pack that has the first revision of an account, if any has."""
    number = bisect_right(signed.packs, client_id, key=attrgetter("first")) - 1
    return None if number < 0 else signed.packs[number]


def read_stored(store: FileStore, key: str, client_id: str) -> SignedStatement | None:
    """Return the statement of an account from a pack. Raises FileStoreError, Unavailable."""
    return read_statement(lambda start, length: b"".join(store.read(key, start, length)), client_id)


class _Predicate(msgspec.Struct):
    completeness: msgspec.Raw


class _Statement(msgspec.Struct):
    predicate: _Predicate


_STATEMENT = msgspec.json.Decoder(_Statement)


def completeness(signed: SignedStatement) -> msgspec.Raw:
    """Return the section about row accounting."""
    return _STATEMENT.decode(signed.content).predicate.completeness


class StoredStatements:
    """The statements of a snapshot, read in the order of the accounts: one pack is in memory."""

    def __init__(self, store: FileStore, signed: SignedSnapshot) -> None:
        self._store, self._signed = store, signed
        self._key = ""
        self._content = b""

    def completeness(self, client_id: str) -> msgspec.Raw | None:
        """Return the section about row accounting of an account. Raises FileStoreError, Unavailable."""
        pack = _pack_of(self._signed, client_id)
        if pack is None:
            return None
        self._load(pack)
        found = read_statement(lambda start, length: self._content[start : start + length], client_id)
        return None if found is None else completeness(found)

    def editions(self) -> Iterator[tuple[str, Edition]]:
        """Yield the first edition of each account. Those in a lost or damaged pack are left out. Raises Unavailable."""
        for pack in self._signed.packs:
            try:
                self._load(pack)
                digests = list(read_digests(lambda start, length: self._content[start : start + length]))
            except FileStoreError:
                _log.error("files.lost", snapshot_id=self._signed.snapshot_id, version=self._signed.version, files=1)
                continue
            for client_id, sha256 in digests:
                yield client_id, Edition(self._signed.version, 1, sha256)

    def _load(self, pack: StatementPack) -> None:
        if pack.key != self._key:
            self._content = b"".join(self._store.read(pack.key))
            self._key = pack.key
