"""Repository of manifests: one row per Leader and resource, written and read in bulk."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import Conflict, RunFenced
from daybreak.domain.snapshot import CurrentFile, ManifestEntry, SnapshotState, TableFiles, TableVersion
from daybreak.state.columns import Instant, instant_text, json_text
from daybreak.state.manifest_entries import (
    ENTRY_COLUMNS,
    FINGERPRINTS,
    FIRST_ENTRIES,
    FORMATS,
    FORMATS_TEXT,
    MORE_ENTRIES,
    PLACES,
    PLACES_PAGE,
    Place,
    as_replaced,
    entries_query,
    entry_of,
    table_of,
)
from daybreak.state.paging import in_pages
from daybreak.state.schema import current_snapshot, snapshot_files, snapshot_leaders, snapshots
from daybreak.state.signature_tables import snapshot_statements, statement_revisions
from daybreak.state.statements import BulkInsert, PreparedRead, Store

# Files without rows are the same for every Leader. Their entries have an empty client id.
SHARED = ""
_PAGE = 2_000
_DELETABLE = (SnapshotState.RETIRED, SnapshotState.FAILED, SnapshotState.DISCARDED)

_own = snapshot_files.alias("own")
_shared = snapshot_files.alias("shared")
_FILE_COLUMNS = (
    snapshots.c.snapshot_id,
    snapshots.c.as_of,
    snapshots.c.published_at,
    snapshots.c.version,
    sa.func.coalesce(_own.c.rows, _shared.c.rows),
    sa.type_coerce(sa.func.coalesce(_own.c.formats, _shared.c.formats), sa.Text),
    _own.c.replaced_at,
)
_TABLE_COLUMNS = (*_FILE_COLUMNS, snapshots.c.columns)
IS_SERVED = sa.and_(
    snapshots.c.state.in_([sa.literal_column("'published'"), sa.literal_column("'retired'")]),
    snapshots.c.files_stand.is_(True),
)


def _file_query(
    origin: sa.FromClause, *where: Any, columns: Sequence[Any] = _TABLE_COLUMNS, order_by: Sequence[Any] = ()
) -> PreparedRead:
    fence = snapshots.c.fence
    client_id: sa.BindParameter[str] = sa.bindparam("client_id")
    resource: sa.BindParameter[str] = sa.bindparam("resource")
    known = sa.and_(snapshot_leaders.c.fence == fence, snapshot_leaders.c.client_id == client_id)
    own = sa.and_(_own.c.fence == fence, _own.c.resource == resource, _own.c.client_id == client_id)
    shared = sa.and_(
        _shared.c.fence == fence, _shared.c.resource == resource, _shared.c.client_id == sa.literal_column("''")
    )
    return PreparedRead(
        origin.join(snapshot_leaders, known).outerjoin(_own, own).outerjoin(_shared, shared),
        columns,
        IS_SERVED,
        *where,
        order_by=order_by,
    )


_CURRENT = current_snapshot.join(snapshots, snapshots.c.snapshot_id == current_snapshot.c.snapshot_id)
_FILE = _file_query(snapshots, snapshots.c.snapshot_id == sa.bindparam("snapshot_id"), columns=_FILE_COLUMNS)
_CURRENT_FILE = _file_query(_CURRENT, columns=_FILE_COLUMNS)
_CURRENT_TABLE = _file_query(_CURRENT)
_NUMBERED_FILE = _file_query(snapshots, snapshots.c.version == sa.bindparam("version", type_=sa.BigInteger))
_LAST_VERSION = (
    sa.select(sa.func.max(snapshots.c.version))
    .where(IS_SERVED, snapshots.c.published_at <= sa.bindparam("at", type_=Instant))
    .correlate(None)
)
_LAST_FILE = _file_query(snapshots, snapshots.c.version == _LAST_VERSION.scalar_subquery())
_KEPT_TABLES = _file_query(snapshots, order_by=[snapshots.c.version])

_INSERT_FILES = BulkInsert(snapshot_files)
_INSERT_LEADERS = BulkInsert(snapshot_leaders)
_KNOWN_LEADERS = snapshot_leaders.join(snapshots, snapshots.c.fence == snapshot_leaders.c.fence)
_LEADER = PreparedRead(
    _KNOWN_LEADERS,
    (snapshot_leaders.c.client_id,),
    snapshots.c.snapshot_id == sa.bindparam("snapshot_id"),
    snapshot_leaders.c.client_id == sa.bindparam("client_id"),
)
_LEADERS = PreparedRead(
    _KNOWN_LEADERS,
    (snapshot_leaders.c.client_id,),
    snapshots.c.snapshot_id == sa.bindparam("snapshot_id"),
    snapshot_leaders.c.client_id > sa.bindparam("client_id"),
    order_by=[snapshot_leaders.c.client_id],
    limit=sa.bindparam("limit", type_=sa.Integer),
)


def locked_run(connection: sa.Connection, snapshot_id: str) -> tuple[int, str] | None:
    """Return fence and state of a run, whose row stays locked until the transaction ends. None if it is unknown."""
    run = sa.select(snapshots.c.fence, snapshots.c.state).where(snapshots.c.snapshot_id == snapshot_id)
    found = connection.execute(run.with_for_update()).first()
    return None if found is None else (found.fence, found.state)


class ManifestStore(Store):
    """The manifests of snapshots. `SnapshotStore` extends it."""

    # --- Writes of the builder that has the lease ---------------------------------------------------

    def require_builder(self, snapshot_id: str, fence: int) -> None:
        """Raise RunFenced unless that fence is building the run.

        The row of the run stays locked until the transaction ends, so that no other builder takes the run over.
        """
        if locked_run(self._connection, snapshot_id) != (fence, SnapshotState.BUILDING):
            raise RunFenced(f"Run {snapshot_id} was taken over by another builder.")

    def add_entries(self, snapshot_id: str, fence: int, entries: Sequence[ManifestEntry]) -> None:
        """Append manifest entries, including the shared header-only ones. Raises RunFenced."""
        self.require_builder(snapshot_id, fence)
        _INSERT_FILES.run(
            self._connection,
            [
                (fence, entry.resource, entry.client_id, entry.rows, entry.fingerprint, json_text(entry.formats), None)
                for entry in entries
            ],
        )

    def add_leaders(self, snapshot_id: str, fence: int, client_ids: Sequence[str]) -> None:
        """Append Leaders of the snapshot. Raises RunFenced."""
        self.require_builder(snapshot_id, fence)
        _INSERT_LEADERS.run(self._connection, [(fence, client_id) for client_id in client_ids])

    # --- Erasures ----------------------------------------------------------------------------------

    def replace_entries(
        self, snapshot_id: str, before: Sequence[ManifestEntry], after: Sequence[ManifestEntry], now: datetime
    ) -> None:
        """Replace manifest entries of Leaders. Links that were issued earlier stop working.

        Raises Conflict if an entry is no longer as in `before`, which has the same Leaders and resources as `after`.
        """
        fence = self._fence_of(snapshot_id)
        table = snapshot_files.c
        for old, new in zip(before, after, strict=True):
            row = (table.fence == fence, table.resource == old.resource, table.client_id == old.client_id)
            found = self._execute(sa.select(FORMATS_TEXT).where(*row).with_for_update()).scalar()
            if found is None or FORMATS.decode(found) != old.formats:
                raise Conflict(f"The files of {old.client_id} in snapshot {snapshot_id} have changed.")
            self._execute(
                sa.update(snapshot_files)
                .where(*row)
                .values(
                    rows=new.rows,
                    fingerprint=new.fingerprint,
                    formats=msgspec.to_builtins(as_replaced(self._connection, snapshot_id, new, now).formats),
                    replaced_at=now,
                )
            )

    # --- Reads -----------------------------------------------------------------------------------

    def file(self, snapshot_id: str | None, client_id: str, resource: str, format: str) -> CurrentFile | None:
        """Return one file, the header-only one for a Leader without rows. `snapshot_id` None is the published snapshot.

        Return None for an unknown Leader, and for a snapshot that is neither published nor retired with its files.
        """
        if snapshot_id is None:
            row = _CURRENT_FILE.first(self._connection, client_id=client_id, resource=resource)
        else:
            row = _FILE.first(self._connection, client_id=client_id, resource=resource, snapshot_id=snapshot_id)
        if row is None:
            return None
        found_id, as_of, published_at, version, rows, formats, replaced_at = row
        stored = None if formats is None else FORMATS.decode(formats).get(format)
        if stored is None:
            return None
        return CurrentFile(found_id, as_of, published_at, version, resource, format, rows, stored, replaced_at)

    def table(self, client_id: str, resource: str, at: TableVersion) -> TableFiles | None:
        """Return the Parquet files of a resource of a Leader, read by one statement.

        Return None for an unknown Leader, and unless that snapshot is kept and has Parquet files with statistics.
        """
        values = {"client_id": client_id, "resource": resource}
        if at.number is not None:
            row = _NUMBERED_FILE.first(self._connection, **values, version=str(at.number))
        elif at.not_after is not None:
            row = _LAST_FILE.first(self._connection, **values, at=instant_text(at.not_after))
        elif at.not_before is not None:
            # Earlier snapshots may lack the Leader, or Parquet files.
            kept = self.tables(client_id, resource)
            return next((table for table in kept if table.published_at >= at.not_before), None)
        else:
            row = _CURRENT_TABLE.first(self._connection, **values)
        return None if row is None else table_of(row)

    def tables(self, client_id: str, resource: str) -> list[TableFiles]:
        """Return the Parquet files of a resource of a Leader in each kept snapshot that `table` finds, oldest first."""
        rows = _KEPT_TABLES.all(self._connection, client_id=client_id, resource=resource)
        return [table for table in map(table_of, rows) if table is not None]

    def leader_known(self, snapshot_id: str, client_id: str) -> bool:
        """Return whether the snapshot has the Leader."""
        return _LEADER.first(self._connection, snapshot_id=snapshot_id, client_id=client_id) is not None

    def manifest(self, snapshot_id: str, client_id: str) -> list[ManifestEntry]:
        """Return the entries of one Leader by resource, header-only ones included. Empty for an unknown Leader."""
        found = self.manifests([snapshot_id], client_id, RESOURCE_NAMES)
        return list(found.get(snapshot_id, {}).values())

    def manifests(
        self, snapshot_ids: Sequence[str], client_id: str, resources: Sequence[str]
    ) -> dict[str, dict[str, ManifestEntry]]:
        """Return the entries of one Leader by snapshot id and resource, as `manifest` does for each snapshot."""
        if not snapshot_ids or not resources:
            return {}
        ids = {f"snapshot{number}": each for number, each in enumerate(snapshot_ids)}
        names = {f"resource{number}": each for number, each in enumerate(resources)}
        read = entries_query(len(ids), len(names))
        found: dict[str, dict[str, ManifestEntry]] = {}
        for snapshot_id, *entry in read.all(self._connection, client_id=client_id, **ids, **names):
            # The entry of the Leader follows the shared one and replaces it.
            found.setdefault(snapshot_id, {})[entry[0]] = entry_of((client_id, *entry))
        return found

    def entries(self, snapshot_id: str, resource: str | None = None) -> Iterator[ManifestEntry]:
        """Yield the entries of one or all resources, by resource and client_id."""
        for name in sorted(RESOURCE_NAMES) if resource is None else [resource]:
            yield from in_pages(partial(self.entries_after, snapshot_id, name))

    def entries_after(
        self, snapshot_id: str, resource: str, after: str | None, wanted: Callable[[str], bool] | None = None
    ) -> tuple[list[ManifestEntry], str | None]:
        """Return a page of `in_pages`: entries of a resource by client_id, those of `wanted` Leaders or of all. Others
        are not decoded.
        """
        values = {"snapshot_id": snapshot_id, "resource": resource, "limit": str(_PAGE)}
        if after is None:
            rows = FIRST_ENTRIES.all(self._connection, **values)
        else:
            rows = MORE_ENTRIES.all(self._connection, client_id=after, **values)
        entries = [entry_of(row) for row in rows if wanted is None or wanted(row[0])]
        return entries, rows[-1][0] if len(rows) == _PAGE else None

    def entries_of(self, snapshot_id: str, resource: str, client_ids: Collection[str]) -> list[ManifestEntry]:
        """Return the entries of some Leaders, in any order."""
        table = snapshot_files.c
        found = self._execute(
            sa.select(*ENTRY_COLUMNS).where(
                table.fence == self._fence_of(snapshot_id), table.resource == resource, table.client_id.in_(client_ids)
            )
        )
        return list(map(entry_of, found))

    def fingerprints(self, snapshot_id: str, resource: str) -> dict[str, str]:
        """Return the fingerprints of a resource by client_id, sorted."""
        found = FINGERPRINTS.all(self._connection, snapshot_id=snapshot_id, resource=resource)
        return {row[0]: row[1] for row in found}

    def places(
        self, snapshot_id: str, after: tuple[str, str], folder: str = ""
    ) -> list[tuple[str, str, Collection[Place]]]:
        """Return resource, client_id and files of the entries after (resource, client_id), in that order: 2,000 of
        them, or the rest. With `folder`, only those with a file in it. Takes a third of the time of `entries`.
        """
        values = {"resource": after[0], "client_id": after[1], "folder": folder, "limit": str(_PAGE)}
        rows = PLACES_PAGE.all(self._connection, snapshot_id=snapshot_id, **values)
        return [(resource, client_id, PLACES.decode(formats).values()) for resource, client_id, formats in rows]

    def leaders(self, snapshot_id: str) -> Iterator[str]:
        """Yield the Leaders of a snapshot, sorted."""
        after, limit = "", str(_PAGE)
        while page := _LEADERS.all(self._connection, snapshot_id=snapshot_id, client_id=after, limit=limit):
            yield from (client_id for (client_id,) in page)
            [after] = page[-1]

    def rows_lost(
        self, before_id: str, now_id: str, resource: str, *, least_rows: int, share: float
    ) -> list[tuple[str, int, int]]:
        """Return Leaders that had at least `least_rows` rows and lost more than `share` of them: (client_id, rows
        before, rows now), ordered by client_id. A Leader without an entry has lost all rows.
        """
        before, now = snapshot_files.alias("before"), snapshot_files.alias("now")
        same = sa.and_(
            now.c.fence == self._fence_of(now_id),
            now.c.resource == before.c.resource,
            now.c.client_id == before.c.client_id,
        )
        rows_now = sa.func.coalesce(now.c.rows, 0)
        found = self._execute(
            sa.select(before.c.client_id, before.c.rows, rows_now)
            .select_from(before.outerjoin(now, same))
            .where(
                before.c.fence == self._fence_of(before_id),
                before.c.resource == resource,
                before.c.client_id != SHARED,
                before.c.rows >= least_rows,
                before.c.rows - rows_now > sa.literal(share, sa.Double) * before.c.rows,
            )
            .order_by(before.c.client_id)
        )
        return [(client_id, old, new) for client_id, old, new in found]

    def keys_in_use(self, snapshot_id: str, folders: tuple[str, ...]) -> Iterator[str]:
        """Yield the keys in the manifest of a snapshot that begin with one of the `folders`."""
        page = self.places(snapshot_id, ("", ""))
        while page:
            for _, _, files in page:
                yield from (file.key for file in files if file.key.startswith(folders))
            page = self.places(snapshot_id, page[-1][:2])

    # --- Deletion --------------------------------------------------------------------------------

    def forget(self, snapshot_id: str, *, at_most: int) -> int:
        """Delete up to `at_most` rows of a snapshot's manifest, and return their number. Repeat until fewer were
        deleted. The run stays, as retired without files. Raises Conflict for a snapshot that is published, or may still
        be published.
        """
        run = locked_run(self._connection, snapshot_id)
        if run is None:
            return 0
        fence, state = run
        if state not in _DELETABLE:
            raise Conflict(f"Snapshot {snapshot_id} is {state}. Its files are still needed.")
        self._change(snapshots, snapshot_id, files_stand=False)
        self._execute(sa.delete(snapshot_statements).where(snapshot_statements.c.fence == fence))
        deleted = 0
        for table in (statement_revisions, snapshot_files, snapshot_leaders):
            if deleted < at_most:
                deleted += self.delete_rows(table, fence, at_most - deleted)
        return deleted

    def delete_rows(self, table: sa.Table, fence: int, at_most: int) -> int:
        """Delete up to `at_most` rows of a run, and return their number."""
        own, keys = table.c.fence == fence, [column for column in table.primary_key.columns if column.name != "fence"]
        first = sa.select(*keys).where(own).order_by(*keys).limit(at_most)
        is_first = sa.tuple_(*keys).in_(first) if len(keys) > 1 else keys[0].in_(first)
        return self._changes(sa.delete(table).where(own, is_first))

    def _fence_of(self, snapshot_id: str) -> int:
        """Return the fence of a run; -1, which matches no rows, if the run is unknown."""
        fence = self._execute(sa.select(snapshots.c.fence).where(snapshots.c.snapshot_id == snapshot_id)).scalar()
        return -1 if fence is None else fence
