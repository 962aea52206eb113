"""Repository of deltas and chains."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import starmap

import sqlalchemy as sa

from daybreak.domain.delta import (
    ACCOUNT_ADDED,
    VERSION_TOO_OLD,
    Chain,
    ChainEntry,
    LeaderDelta,
    Publication,
    ResourceDelta,
)
from daybreak.domain.errors import Conflict
from daybreak.domain.snapshot import CurrentFile, Snapshot, SnapshotState
from daybreak.state.columns import json_text
from daybreak.state.manifests import IS_SERVED
from daybreak.state.paging import in_pages
from daybreak.state.schema import account_chains, counters, current_snapshot, snapshot_deltas, snapshots
from daybreak.state.snapshots import SNAPSHOT_COLUMNS, UNPUBLISHED, SnapshotStore, snapshot_of
from daybreak.state.statements import BulkInsert, PreparedRead, Store

_NEW_LEADER = ""
"""Resource of the row of a Leader that the snapshot before did not have."""
_PAGE = 2_000
_PUBLISHED = (SnapshotState.PUBLISHED, SnapshotState.RETIRED)
_INSERT = BulkInsert(snapshot_deltas)
_PUBLICATION = (snapshots.c.snapshot_id, snapshots.c.version, snapshots.c.as_of, snapshots.c.published_at)
_PUBLICATIONS = PreparedRead(snapshots, _PUBLICATION, IS_SERVED, order_by=[snapshots.c.version.desc()])
_CURRENT = PreparedRead(
    snapshots.join(current_snapshot, current_snapshot.c.snapshot_id == snapshots.c.snapshot_id),
    (*_PUBLICATION, snapshots.c.chain_id),
)
_SERVICE_CHAIN = snapshots.c.chain_id == sa.bindparam("service_chain_id")
_LINKS = PreparedRead(
    snapshots, _PUBLICATION, _SERVICE_CHAIN, snapshots.c.deltas_kept.is_(True), order_by=[snapshots.c.version.desc()]
)
_DELTAS = snapshot_deltas.join(snapshots, snapshots.c.fence == snapshot_deltas.c.fence)
_OF_ACCOUNT = _SERVICE_CHAIN, snapshot_deltas.c.client_id == sa.bindparam("client_id")
_RESOURCES = PreparedRead(
    _DELTAS, (snapshots.c.snapshot_id, snapshot_deltas.c.resource, snapshot_deltas.c.delta), *_OF_ACCOUNT
)
_ADDED = PreparedRead(
    _DELTAS, (snapshots.c.version,), *_OF_ACCOUNT, snapshot_deltas.c.resource == sa.literal_column(f"'{_NEW_LEADER}'")
)
_CLOSED = PreparedRead(
    account_chains,
    (account_chains.c.chain_id, account_chains.c.from_version, account_chains.c.reason),
    account_chains.c.client_id == sa.bindparam("client_id"),
    account_chains.c.service_chain_id == sa.bindparam("service_chain_id"),
)
_FIRST = PreparedRead(
    snapshots,
    (snapshots.c.version, snapshots.c.chain_reason),
    snapshots.c.snapshot_id == sa.bindparam("service_chain_id"),
)


class DeltaStore(Store):
    """Deltas of publications, and the chains that they form."""

    def __init__(self, connection: sa.Connection) -> None:
        super().__init__(connection)
        self._runs = SnapshotStore(connection)

    # --- Writes of the builder that has the lease ---------------------------------------------------

    def begin(self, snapshot_id: str, fence: int, base_id: str | None, reason: str | None = None) -> None:
        """Record the snapshot that a run's deltas begin from, or the reason why it makes none. Raises RunFenced."""
        self._runs.require_builder(snapshot_id, fence)
        kept = base_id is not None
        self._change(snapshots, snapshot_id, deltas_from=base_id, chain_reason=reason, deltas_kept=kept)

    def add(self, snapshot_id: str, fence: int, deltas: Sequence[LeaderDelta]) -> None:
        """Append deltas of a run. Raises RunFenced."""
        self._runs.require_builder(snapshot_id, fence)
        rows = [(fence, each.client_id, each.resource, json_text(each.delta)) for each in deltas]
        _INSERT.run(self._connection, rows)

    def add_new_leaders(self, snapshot_id: str, fence: int, client_ids: Sequence[str]) -> None:
        """Append Leaders that the snapshot before did not have. Raises RunFenced."""
        self._runs.require_builder(snapshot_id, fence)
        empty = json_text(ResourceDelta(0, 0))
        _INSERT.run(self._connection, [(fence, client_id, _NEW_LEADER, empty) for client_id in client_ids])

    # --- Reads -----------------------------------------------------------------------------------

    def of_snapshot(self, snapshot_id: str) -> Iterator[LeaderDelta]:
        """Yield the deltas of a snapshot, ordered by client_id and resource."""
        return in_pages(lambda after: self.deltas_after(snapshot_id, None, after))

    def deltas_after(
        self, snapshot_id: str, resource: str | None, after: tuple[str, str] | None
    ) -> tuple[list[LeaderDelta], tuple[str, str] | None]:
        """Return a page of `in_pages`: deltas of one or all resources, by client_id and resource."""
        table = snapshot_deltas.c
        fence = sa.select(snapshots.c.fence).where(snapshots.c.snapshot_id == snapshot_id).scalar_subquery()
        page = (
            sa.select(table.client_id, table.resource, table.delta)
            .where(table.fence == fence, table.resource != _NEW_LEADER)
            .order_by(table.client_id, table.resource)
            .limit(_PAGE)
        )
        if resource is not None:
            page = page.where(table.resource == resource)
        if after is not None:
            page = page.where(sa.tuple_(table.client_id, table.resource) > sa.tuple_(*after))
        deltas = self._all(page, LeaderDelta)
        return deltas, (deltas[-1].client_id, deltas[-1].resource) if len(deltas) == _PAGE else None

    def new_leaders(self, snapshot_id: str) -> frozenset[str]:
        """Return the Leaders of a snapshot that the snapshot before did not have."""
        table = snapshot_deltas.c
        rows = self._execute(
            sa.select(table.client_id)
            .join(snapshots, snapshots.c.fence == table.fence)
            .where(snapshots.c.snapshot_id == snapshot_id, table.resource == _NEW_LEADER)
        )
        return frozenset(rows.scalars())

    def chain(self, client_id: str) -> Chain | None:
        """Return the chain of an account up to the published snapshot. Return None when there is none, or when it does
        not have the Leader.
        """
        row = _CURRENT.first(self._connection)
        if row is None or row[-1] is None:
            return None
        current, service_chain_id = Publication(*row[:-1]), row[-1]
        if not self._runs.leader_known(current.snapshot_id, client_id):
            return None
        # Requests read without a transaction. In this order, deltas that are being deleted are never taken for
        # unchanged resources: rows first, then what says whether they are complete.
        resources = self._resources(client_id, service_chain_id)
        chain_id, beginning, reason = self._beginning(client_id, service_chain_id)
        entries: list[ChainEntry] = []
        kept = _LINKS.all(self._connection, service_chain_id=service_chain_id)
        for publication in (each for each in starmap(Publication, kept) if beginning < each.version <= current.version):
            if publication.version != current.version - len(entries):
                break
            entries.append(ChainEntry(publication, resources.get(publication.snapshot_id, {})))
        oldest = current.version - len(entries)
        started_by = reason if oldest == beginning else VERSION_TOO_OLD
        return Chain(chain_id, current, oldest, tuple(reversed(entries)), started_by)

    def file(self, publication: str | int, client_id: str, resource: str, format: str) -> CurrentFile | None:
        """Return one delta file of csv or json, None if it is not in the account's chain. `publication` is the id of a
        snapshot or a version.
        """
        current = _CURRENT.first(self._connection)
        if current is None or not self._runs.leader_known(current[0], client_id):
            return None
        row = self._execute(
            sa.select(*_PUBLICATION, snapshots.c.chain_id, snapshot_deltas.c.delta)
            .join(snapshot_deltas, snapshots.c.fence == snapshot_deltas.c.fence)
            .where(
                (snapshots.c.version if isinstance(publication, int) else snapshots.c.snapshot_id) == publication,
                snapshots.c.state.in_(_PUBLISHED),
                snapshots.c.deltas_kept.is_(True),
                snapshots.c.chain_id == current[-1],
                snapshot_deltas.c.client_id == client_id,
                snapshot_deltas.c.resource == resource,
            )
        ).first()
        if row is None or row.version <= self._beginning(client_id, row.chain_id)[1]:
            return None
        stored = row.delta.formats.get(format)
        if stored is None:
            return None
        return CurrentFile(
            row.snapshot_id, row.as_of, row.published_at, row.version, resource, format, row.delta.lines, stored
        )

    def publications(self) -> list[Publication]:
        """Return the published snapshot and those before it that have files, newest first."""
        return list(starmap(Publication, _PUBLICATIONS.all(self._connection)))

    def version_after(self, instant: datetime) -> int | None:
        """Return the version of the first publication at or after an instant, kept or not."""
        version = sa.func.min(snapshots.c.version)
        return self._execute(sa.select(version).where(snapshots.c.published_at >= instant)).scalar()

    def version_before(self, instant: datetime) -> int | None:
        """Return the version of the last publication at or before an instant, kept or not."""
        version = sa.func.max(snapshots.c.version)
        return self._execute(sa.select(version).where(snapshots.c.published_at <= instant)).scalar()

    # --- End of chains and deletion -----------------------------------------------------------------

    def close_account_chain(self, client_id: str, chain_id: str, reason: str, now: datetime) -> list[str]:
        """End an account's chain at the published version, and begin the chain `chain_id` there. Delete all its deltas,
        and return the keys of their files, which the caller deletes after the transaction. Shared files are kept.

        Call it in the transaction that changes the account's published files. A run in progress may have compared with
        the old files: its publication begins the account's chain again.
        """
        current = self._runs.current()
        if current is not None and current.version is not None and current.chain_id is not None:
            row = {
                "client_id": client_id,
                "chain_id": chain_id,
                "service_chain_id": current.chain_id,
                "from_version": current.version,
                "reason": reason,
                "closed_at": now,
            }
            self._upsert(account_chains, [row])
        # Signed statements that are not published yet become obsolete.
        self._count("signing_epoch")
        fences = self._connection.scalars(sa.select(snapshots.c.fence).where(snapshots.c.deltas_kept.is_(True))).all()
        own = sa.and_(
            snapshot_deltas.c.client_id == client_id,
            snapshot_deltas.c.fence.in_(fences),
            snapshot_deltas.c.resource != _NEW_LEADER,
        )
        deltas = self._connection.scalars(sa.select(snapshot_deltas.c.delta).where(own)).all()
        self._execute(sa.delete(snapshot_deltas).where(own))
        return [stored.key for delta in deltas if delta.has_rows for stored in delta.formats.values()]

    def published_with_deltas(self) -> list[Snapshot]:
        """Return the published and retired snapshots whose deltas are kept, newest first."""
        kept = snapshots.c.state.in_(_PUBLISHED), snapshots.c.deltas_kept.is_(True)
        return self._all(sa.select(*SNAPSHOT_COLUMNS).where(*kept).order_by(snapshots.c.version.desc()), snapshot_of)

    def needed(self) -> set[str]:
        """Return the ids of snapshots whose deltas are kept, and of runs that may still be published."""
        is_needed = sa.or_(snapshots.c.deltas_kept.is_(True), snapshots.c.state.in_(UNPUBLISHED))
        return set(self._connection.scalars(sa.select(snapshots.c.snapshot_id).where(is_needed)))

    def abandoned(self) -> list[str]:
        """Return the ids of snapshots whose deltas are to be deleted: those of ended runs and of ended chains, and
        those whose deletion was interrupted.
        """
        current = self._runs.current()
        has_rows = sa.exists().where(snapshot_deltas.c.fence == snapshots.c.fence)
        is_withdrawn = sa.and_(
            snapshots.c.state.in_(_PUBLISHED),
            sa.or_(
                snapshots.c.chain_id.is_distinct_from(None if current is None else current.chain_id),
                # The first publication of a chain has no deltas that fit.
                snapshots.c.chain_id == snapshots.c.snapshot_id,
            ),
        )
        is_dead = sa.and_(snapshots.c.state.not_in(_PUBLISHED), snapshots.c.state.not_in(UNPUBLISHED))
        condition = sa.or_(
            sa.and_(snapshots.c.deltas_kept.is_(True), sa.or_(is_withdrawn, is_dead)),
            sa.and_(snapshots.c.deltas_kept.is_(False), has_rows),
        )
        found = sa.select(snapshots.c.snapshot_id).where(condition).order_by(snapshots.c.fence)
        return list(self._connection.scalars(found))

    def forget(self, snapshot_id: str, *, at_most: int) -> int:
        """Delete up to `at_most` deltas of a snapshot from the database, and return their number. Repeat until fewer
        were deleted. Nothing is served from it any more. Raises Conflict for a snapshot that may still be published.
        """
        snapshot = self._runs.get(snapshot_id)
        if snapshot is None:
            return 0
        if snapshot.state in UNPUBLISHED:
            raise Conflict(f"Snapshot {snapshot_id} is {snapshot.state}. Its deltas are still needed.")
        self._change(snapshots, snapshot_id, deltas_kept=False)
        return self._runs.delete_rows(snapshot_deltas, snapshot.fence, at_most)

    def first_publication(self) -> str | None:
        """Return the id of the first published snapshot."""
        return self._execute(
            sa.select(snapshots.c.snapshot_id)
            .where(snapshots.c.version.is_not(None))
            .order_by(snapshots.c.version)
            .limit(1)
        ).scalar()

    def last_version(self) -> int:
        """Return the version of the latest publication, 0 before the first one."""
        return self._counter("version")

    def restart_chain(self, snapshot_id: str, reason: str, last_version: int) -> None:
        """Let the publication of a snapshot begin a new chain, with a version greater than `last_version`."""
        unpublished = snapshots.c.state.in_(UNPUBLISHED)
        self._change(snapshots, snapshot_id, unpublished, deltas_from=None, chain_reason=reason)
        self.raise_version(last_version)

    def raise_version(self, version: int) -> None:
        """Let later publications have a version greater than this one."""
        self._execute(
            sa.update(counters).where(counters.c.name == "version", counters.c.value < version).values(value=version)
        )

    def _beginning(self, client_id: str, service_chain_id: str) -> tuple[str, int, str]:
        """Return the account's chain, its first version and why it began. It begins later than the service's after an
        erasure or a gap.
        """
        values = {"client_id": client_id, "service_chain_id": service_chain_id}
        closed = _CLOSED.first(self._connection, **values)
        if closed is None:
            first = _FIRST.first(self._connection, service_chain_id=service_chain_id)
            assert first is not None  # the snapshot of a chain is kept
            closed = service_chain_id, first[0], first[1] or ""
        chain_id, version, reason = closed
        added = max((version for (version,) in _ADDED.all(self._connection, **values)), default=0)
        return (chain_id, version, reason) if added <= version else (chain_id, added, ACCOUNT_ADDED)

    def _resources(self, client_id: str, service_chain_id: str) -> dict[str, dict[str, ResourceDelta]]:
        found: dict[str, dict[str, ResourceDelta]] = {}
        values = {"client_id": client_id, "service_chain_id": service_chain_id}
        rows = _RESOURCES.all(self._connection, **values)
        for snapshot_id, resource, delta in rows:
            found.setdefault(snapshot_id, {})[resource] = delta
        return found
