"""Statements after an erasure: every kept version of the account is signed again, as the next revision, and the account
gets a signed receipt.

A statement whose files change is replaced in the transaction that changes the manifest.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog

from daybreak.catalogue.formats import STATEMENTS
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.erasure import Erasure
from daybreak.domain.errors import Conflict, FileStoreError
from daybreak.domain.signing import Edition, Revision, SignedSnapshot, StatementPack
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.filestore.file_store import FileRevision
from daybreak.proof.statement import (
    ERASURE_TYPE,
    AccountFacts,
    Facts,
    in_toto,
    listed,
    reconciled,
    statement,
    statement_template,
)
from daybreak.proof.statement_pack import SignedStatement, encode_pack, sign_statement
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.signed_statements import completeness, read_stored, statement_key
from daybreak.snapshots.signing import Authority, authority_of
from daybreak.state.stores import Stores

STATEMENT = "statement"
"""The name of a single statement in the place of a resource."""
_MIN_VALIDITY = timedelta(minutes=10)
_log = structlog.get_logger("daybreak.snapshots")


@dataclass(frozen=True, slots=True)
class _Found:
    """The latest statement of an account in a snapshot, and that of the version before."""

    edition: Edition
    content: Mapping[str, Any]
    completeness: msgspec.Raw
    previous: Edition | None


class ErasureStatements:
    """Signs the statements of one erasure. Without a CA, nothing is signed."""

    def __init__(self, context: RunContext, erasure: Erasure) -> None:
        """Load the CA. Raises OperatorError."""
        self._context, self._erasure = context, erasure
        self._authority: Authority | None = authority_of(context.state, context.settings, context.clock())

    def keys(self, snapshot: Snapshot, client_id: str, revision: FileRevision) -> list[str]:
        """Return the key of the statement that `write` stores, if there is one."""
        if self._authority is None or snapshot.version is None or self._find(snapshot, client_id) is None:
            return []
        return [revision.key(client_id, STATEMENT, STATEMENTS.name)]

    def write(
        self,
        snapshot: Snapshot,
        client_id: str,
        changed: Sequence[ManifestEntry],
        chain_id: str | None,
        revision: FileRevision,
    ) -> Revision | None:
        """Sign and store the next revision of a statement. `changed` are the entries that replace others, `chain_id` is
        that of the account if this is the published snapshot. Return None for a snapshot without statements.
        """
        found = None if snapshot.version is None else self._find(snapshot, client_id)
        if self._authority is None or found is None:
            return None
        context, now = self._context, self._context.clock()
        manifest = context.state.read(lambda stores: stores.snapshots.manifest(snapshot.snapshot_id, client_id))
        formats = context.settings.snapshot.formats
        entries = {entry.resource: listed(entry, formats) for entry in (*manifest, *changed)}
        expires_at = max(datetime.fromisoformat(found.content["expires_at"]), now + _MIN_VALIDITY)
        facts = Facts(self._authority.service, found.edition.version, snapshot.as_of, now, expires_at)
        number = found.edition.revision + 1
        account = AccountFacts(
            client_id,
            chain_id or str(found.content["chain_id"]),
            [entries[name] for name in RESOURCE_NAMES if name in entries],
            reconciled(found.completeness, entries),
            found.previous,
            revision=number,
        )
        key = self._authority.key(found.edition.version, now, expires_at)
        content = statement(statement_template(facts), account)
        signed = sign_statement(content, key, client_id)
        stored = revision.write(client_id, STATEMENT, STATEMENTS.name, [encode_pack([(client_id, signed)])])
        edition = Edition(found.edition.version, number, signed.digest.hex())
        pack = StatementPack(client_id, stored.key, stored.bytes, stored.sha256)
        return Revision(client_id, edition, pack, self._erasure.erasure_id, key.public)

    def sign_kept_versions(self) -> None:
        """Sign the kept versions of the accounts whose statements are not of this erasure yet, oldest first."""
        if self._authority is None:
            return
        for client_id in self._accounts():
            for snapshot in reversed(self._context.state.read(lambda stores: stores.snapshots.served())):
                while not self._is_signed(snapshot, client_id):
                    with suppress(Conflict):  # Another erasure has signed the account.
                        self._sign(snapshot, client_id)

    def receipts(self, now: datetime) -> list[tuple[str, SignedStatement]]:
        """Return the signed receipt of each account."""
        if self._authority is None:
            return []
        receipts = []
        for client_id in self._accounts():
            files = self._replaced_files(client_id)
            predicate = {
                "service": self._authority.service,
                "client_id": client_id,
                "erasure_id": self._erasure.erasure_id,
                "member_sha256": self._erasure.member_sha256,
                "started_at": self._erasure.started_at,
                "finished_at": now,
                "files": files,
            }
            subjects = [
                {"name": f"{one['version']}.{one['revision']}/{one['name']}", "digest": {"sha256": one["new_sha256"]}}
                for one in files
            ]
            content = in_toto(ERASURE_TYPE, subjects, predicate)
            key = self._authority.key(0, now, now + _MIN_VALIDITY)
            receipts.append((client_id, sign_statement(content, key, client_id)))
        return receipts

    def _accounts(self) -> list[str]:
        erasure = self._context.state.read(lambda stores: stores.erasures.get(self._erasure.erasure_id))
        return sorted({each.client_id for each in erasure.replaced}) if erasure is not None else []

    def _is_signed(self, snapshot: Snapshot, client_id: str) -> bool:
        def read(stores: Stores) -> bool:
            latest = stores.signatures.latest_revision(snapshot.snapshot_id, client_id)
            return latest is not None and latest.erasure_id == self._erasure.erasure_id

        return self._find(snapshot, client_id) is None or self._context.state.read(read)

    def _sign(self, snapshot: Snapshot, client_id: str) -> None:
        context = self._context
        with context.store.revise(snapshot.snapshot_id, context.new_id().replace("-", "")[:12]) as revision:
            signed = self.write(snapshot, client_id, (), self._chain_of(snapshot, client_id), revision)
            revision.commit()
        assert signed is not None
        context.state.write(lambda stores: stores.signatures.add_revision(snapshot.snapshot_id, client_id, signed))

    def _chain_of(self, snapshot: Snapshot, client_id: str) -> str | None:
        """Return the chain of the account if this is the published snapshot."""

        def read(stores: Stores) -> str | None:
            current = stores.snapshots.current()
            if current is None or current.snapshot_id != snapshot.snapshot_id or current.chain_id is None:
                return None
            own = stores.signatures.account_chains(current.chain_id).get(client_id)
            return None if own is None else own[0]

        return self._context.state.read(read)

    def _find(self, snapshot: Snapshot, client_id: str) -> _Found | None:
        signed = self._signed(snapshot)
        if signed is None:
            return None
        stored = self._stored(signed, client_id, None)
        if stored is None:
            return None
        content = json.loads(stored.content)["predicate"]
        edition = Edition(content["version"], content["revision"], stored.sha256)
        return _Found(edition, content, completeness(stored), self._previous(content["previous"], client_id))

    def _stored(self, signed: SignedSnapshot, client_id: str, revision: int | None) -> SignedStatement | None:
        """Return a statement, None if there is none. A lost one must not stop an erasure."""
        key = self._context.state.read(lambda stores: statement_key(stores, signed, client_id, revision))
        try:
            return None if key is None else read_stored(self._context.store, key, client_id)
        except FileStoreError:
            _log.error("files.lost", snapshot_id=signed.snapshot_id, version=signed.version, files=1)
            return None

    def _previous(self, named: Mapping[str, Any] | None, client_id: str) -> Edition | None:
        """Return the latest edition of the version that a statement names."""
        if named is None:
            return None

        def read(stores: Stores) -> Revision | None:
            signed = stores.signatures.of_publication(named["version"])
            return None if signed is None else stores.signatures.latest_revision(signed.snapshot_id, client_id)

        latest = self._context.state.read(read)
        return Edition(named["version"], named["revision"], named["sha256"]) if latest is None else latest.edition

    def _replaced_files(self, client_id: str) -> list[dict[str, Any]]:
        """Return the files that differ between the statements before and after the erasure."""
        files = []
        for snapshot in reversed(self._context.state.read(lambda stores: stores.snapshots.served())):
            signed = self._signed(snapshot)
            own = [each for each in self._revisions(snapshot, client_id) if each.erasure_id == self._erasure.erasure_id]
            if signed is None or not own:
                continue
            first, last = own[0].edition.revision - 1, own[-1].edition.revision
            before, after = self._stored(signed, client_id, first), self._stored(signed, client_id, last)
            if before is not None and after is not None:
                files += _differences(json.loads(before.content), json.loads(after.content))
        return files

    def _signed(self, snapshot: Snapshot) -> SignedSnapshot | None:
        return self._context.state.read(lambda stores: stores.signatures.of_snapshot(snapshot.snapshot_id))

    def _revisions(self, snapshot: Snapshot, client_id: str) -> list[Revision]:
        return self._context.state.read(lambda stores: stores.signatures.revisions(snapshot.snapshot_id, client_id))


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    old = {each["name"]: each["digest"]["sha256"] for each in before["subject"]}
    rows, new_rows = before["predicate"]["files"], after["predicate"]["files"]
    return [
        {
            "version": after["predicate"]["version"],
            "revision": after["predicate"]["revision"],
            "name": each["name"],
            "resource": each["name"].partition(".")[0],
            "rows_removed": rows[each["name"]]["rows"] - new_rows[each["name"]]["rows"],
            "withdrawn_sha256": old[each["name"]],
            "new_sha256": each["digest"]["sha256"],
        }
        for each in after["subject"]
        if each["name"] in old and old[each["name"]] != each["digest"]["sha256"]
    ]
