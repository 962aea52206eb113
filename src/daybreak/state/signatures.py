"""Repository of signed statements and trust files."""

from collections.abc import Sequence
from datetime import datetime
from itertools import starmap
from typing import Any

import sqlalchemy as sa

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.delta import LeaderDelta
from daybreak.domain.errors import Conflict
from daybreak.domain.signing import Edition, Revision, SignedSnapshot, Trust
from daybreak.domain.snapshot import ManifestEntry
from daybreak.state.manifest_entries import ENTRY_COLUMNS, entry_of
from daybreak.state.manifests import IS_SERVED, locked_run
from daybreak.state.records import columns_of, values_of
from daybreak.state.schema import account_chains, current_snapshot, snapshot_deltas, snapshot_files, snapshots
from daybreak.state.signature_tables import revoked_signers, snapshot_statements, statement_revisions, trust_files
from daybreak.state.snapshots import UNPUBLISHED
from daybreak.state.statements import PreparedRead, Store

_SIGNED = ("version", "chain_id", "epoch", "signed_at", "expires_at", "public_key", "packs")


def _statements_of(*where: sa.ColumnElement[bool]) -> PreparedRead:
    source = snapshot_statements.join(snapshots, snapshots.c.fence == snapshot_statements.c.fence)
    columns = (snapshot_statements.c[name] for name in _SIGNED)
    return PreparedRead(source, (snapshots.c.snapshot_id, *columns), *where)


def _revisions_of(*where: sa.ColumnElement[bool]) -> PreparedRead:
    table = statement_revisions.c
    return PreparedRead(
        statement_revisions.join(snapshots, snapshots.c.fence == table.fence),
        (
            table.client_id,
            snapshots.c.version,
            table.revision,
            table.sha256,
            table.pack,
            table.erasure_id,
            table.public_key,
        ),
        *where,
        order_by=[table.client_id, table.revision],
    )


_IS_SNAPSHOT = snapshots.c.snapshot_id == sa.bindparam("snapshot_id")
_CURRENT_ID = sa.select(current_snapshot.c.snapshot_id).scalar_subquery()
_OF_SNAPSHOT = _statements_of(_IS_SNAPSHOT)
_OF_CURRENT = _statements_of(snapshots.c.snapshot_id == _CURRENT_ID, IS_SERVED)
_OF_VERSION = _statements_of(snapshots.c.version == sa.bindparam("version", type_=sa.BigInteger), IS_SERVED)
_ENTRIES = PreparedRead(
    snapshot_files.join(snapshots, snapshots.c.fence == snapshot_files.c.fence),
    ENTRY_COLUMNS,
    _IS_SNAPSHOT,
    snapshot_files.c.resource.in_([sa.literal_column(f"'{name}'") for name in RESOURCE_NAMES]),
    snapshot_files.c.client_id >= sa.bindparam("first"),
    snapshot_files.c.client_id <= sa.bindparam("last"),
)
_DELTAS = PreparedRead(
    snapshot_deltas.join(snapshots, snapshots.c.fence == snapshot_deltas.c.fence),
    (snapshot_deltas.c.client_id, snapshot_deltas.c.resource, snapshot_deltas.c.delta),
    _IS_SNAPSHOT,
    snapshot_deltas.c.client_id >= sa.bindparam("first"),
    snapshot_deltas.c.client_id <= sa.bindparam("last"),
    snapshot_deltas.c.resource != sa.literal_column("''"),
)
_REVISIONS = _revisions_of(_IS_SNAPSHOT)
_REVISIONS_OF_ACCOUNT = _revisions_of(_IS_SNAPSHOT, statement_revisions.c.client_id == sa.bindparam("client_id"))


class SignatureStore(Store):
    """Statements of snapshots, revisions after erasures, the trust file, and revoked keys."""

    # --- Statements of snapshots -------------------------------------------------------------------

    def record(self, signed: SignedSnapshot) -> None:
        """Replace the statements of a run. Raises Conflict for a published one, whose statements never change."""
        run = locked_run(self._connection, signed.snapshot_id)
        if run is None or run[1] not in UNPUBLISHED:
            raise Conflict(f"Snapshot {signed.snapshot_id} can no longer be signed.")
        values = {name: getattr(signed, name) for name in _SIGNED}
        self._upsert(snapshot_statements, [{"fence": run[0], **values}])

    def of_snapshot(self, snapshot_id: str) -> SignedSnapshot | None:
        """Return the statements of a run, None if they were not signed."""
        return _signed_of(_OF_SNAPSHOT.first(self._connection, snapshot_id=snapshot_id))

    def of_publication(self, version: int | None) -> SignedSnapshot | None:
        """Return the statements of the published snapshot, or of a kept one with that version."""
        if version is None:
            return _signed_of(_OF_CURRENT.first(self._connection))
        return _signed_of(_OF_VERSION.first(self._connection, version=str(version)))

    def epoch(self) -> int:
        """Return the signing epoch. Unpublished statements of an earlier one are obsolete."""
        return self._counter("signing_epoch")

    # --- Revisions after erasures ------------------------------------------------------------------

    def add_revision(self, snapshot_id: str, client_id: str, revision: Revision) -> None:
        """Add the next revision of a statement. Raises Conflict if it exists."""
        latest, edition = self.latest_revision(snapshot_id, client_id), revision.edition
        if latest is not None and latest.edition.revision >= edition.revision:
            raise Conflict(f"The statement of {client_id} in snapshot {snapshot_id} has changed.")
        self._execute(
            sa.insert(statement_revisions).values(
                fence=sa.select(snapshots.c.fence).where(snapshots.c.snapshot_id == snapshot_id).scalar_subquery(),
                client_id=client_id,
                revision=edition.revision,
                erasure_id=revision.erasure_id,
                public_key=revision.public_key,
                pack=revision.pack,
                sha256=edition.sha256,
            )
        )

    def latest_revision(self, snapshot_id: str, client_id: str) -> Revision | None:
        """Return the latest revision that an erasure made."""
        found = self.revisions(snapshot_id, client_id)
        return found[-1] if found else None

    def revisions(self, snapshot_id: str, client_id: str | None = None) -> list[Revision]:
        """Return the revisions that erasures made, oldest first, of one or all accounts."""
        if client_id is None:
            rows = _REVISIONS.all(self._connection, snapshot_id=snapshot_id)
        else:
            rows = _REVISIONS_OF_ACCOUNT.all(self._connection, snapshot_id=snapshot_id, client_id=client_id)
        return [
            Revision(owner, Edition(version, revision, sha256), pack, erasure_id, public_key)
            for owner, version, revision, sha256, pack, erasure_id, public_key in rows
        ]

    # --- Content of statements ---------------------------------------------------------------------

    def entries(self, snapshot_id: str, first: str, last: str) -> list[ManifestEntry]:
        """Return the manifest entries of the accounts from `first` to `last`, and those without an account if `first`
        is empty.
        """
        return [
            entry_of(row) for row in _ENTRIES.all(self._connection, snapshot_id=snapshot_id, first=first, last=last)
        ]

    def deltas(self, snapshot_id: str, first: str, last: str) -> list[LeaderDelta]:
        """Return the deltas of the accounts from `first` to `last`."""
        rows = _DELTAS.all(self._connection, snapshot_id=snapshot_id, first=first, last=last)
        return list(starmap(LeaderDelta, rows))

    def account_chains(self, service_chain_id: str) -> dict[str, tuple[str, datetime]]:
        """Return the own chains of accounts, and when their chain of the service was closed."""
        rows = self._execute(
            sa.select(account_chains.c.client_id, account_chains.c.chain_id, account_chains.c.closed_at).where(
                account_chains.c.service_chain_id == service_chain_id
            )
        )
        return {client_id: (chain_id, closed_at) for client_id, chain_id, closed_at in rows}

    # --- Trust ---------------------------------------------------------------------------------------

    def trust(self) -> Trust | None:
        """Return the current trust file, None if the service has not signed anything."""
        newest_first = sa.select(*columns_of(Trust, trust_files)).order_by(trust_files.c.version.desc())
        return self._first(newest_first.limit(1), Trust)

    def add_trust(self, trust: Trust, now: datetime) -> None:
        """Add the next version of the trust file. Raises Conflict if another one was added in the meantime."""
        current = self.trust()
        if trust.version != (1 if current is None else current.version + 1):
            raise Conflict("The trust file was changed in the meantime. Run the command again.")
        self._execute(sa.insert(trust_files).values(created_at=now, **values_of(trust)))

    def revoke(self, public_keys: Sequence[str], now: datetime) -> None:
        """Record keys as revoked. Statements that are not published yet become obsolete."""
        rows: list[dict[str, Any]] = [{"public_key": key, "revoked_at": now} for key in public_keys]
        self._upsert(revoked_signers, rows, change=["public_key"])
        self._count("signing_epoch")

    def revoked(self) -> list[str]:
        """Return the revoked keys, sorted."""
        return list(
            self._connection.scalars(sa.select(revoked_signers.c.public_key).order_by(revoked_signers.c.public_key))
        )


def _signed_of(row: Sequence[Any] | None) -> SignedSnapshot | None:
    return None if row is None else SignedSnapshot(*row)
