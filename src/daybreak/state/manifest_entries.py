"""Manifest entries as stored."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import structs

from daybreak.domain.snapshot import ManifestEntry, Since, StoredFormat, TableFiles
from daybreak.state.schema import snapshot_files, snapshot_leaders, snapshots
from daybreak.state.statements import PreparedRead


class Place(msgspec.Struct, gc=False):
    """Key and size of a file."""

    key: str
    bytes: int


FORMATS = msgspec.json.Decoder(dict[str, StoredFormat])
PLACES = msgspec.json.Decoder(dict[str, Place])
FORMATS_TEXT = sa.type_coerce(snapshot_files.c.formats, sa.Text)
PARQUET = "parquet"
ENTRY_COLUMNS = (
    snapshot_files.c.client_id,
    snapshot_files.c.resource,
    snapshot_files.c.rows,
    snapshot_files.c.fingerprint,
    FORMATS_TEXT,
)


@lru_cache
def entries_query(snapshot_count: int, resource_count: int) -> PreparedRead:
    """Return the read of the entries of a Leader. Snapshots are the parameters `snapshot0` to `snapshotN`, resources
    likewise.
    """

    def parameters(name: str, count: int) -> list[sa.BindParameter[str]]:
        return [sa.bindparam(f"{name}{number}") for number in range(count)]

    client_id: sa.BindParameter[str] = sa.bindparam("client_id")
    files, fence = snapshot_files.c, snapshots.c.fence
    return PreparedRead(
        snapshots.join(snapshot_leaders, snapshot_leaders.c.fence == fence).join(snapshot_files, files.fence == fence),
        (snapshots.c.snapshot_id, files.resource, files.rows, files.fingerprint, FORMATS_TEXT),
        # The rows of a snapshot are deleted in several transactions. None of them is a part of a manifest.
        snapshots.c.files_stand.is_(True),
        snapshot_leaders.c.client_id == client_id,
        snapshots.c.snapshot_id.in_(parameters("snapshot", snapshot_count)),
        # With the resources listed, both databases seek in the primary key instead of scanning the snapshot.
        files.resource.in_(parameters("resource", resource_count)),
        files.client_id.in_([sa.literal_column("''"), client_id]),
        order_by=[files.resource, files.client_id],
    )


_POSITION = (snapshot_files.c.resource, snapshot_files.c.client_id)


def _read_of(
    columns: Sequence[Any], *where: sa.ColumnElement[bool], limit: sa.BindParameter[int] | None = None
) -> PreparedRead:
    """Return the read of the entries of a snapshot that satisfy conditions, by resource and client_id."""
    return PreparedRead(
        snapshot_files.join(snapshots, snapshots.c.fence == snapshot_files.c.fence),
        columns,
        snapshots.c.snapshot_id == sa.bindparam("snapshot_id"),
        *where,
        order_by=_POSITION,
        limit=limit,
    )


_LIMIT = sa.bindparam("limit", type_=sa.Integer)
_OF_RESOURCE = snapshot_files.c.resource == sa.bindparam("resource")
PLACES_PAGE = _read_of(
    (*_POSITION, FORMATS_TEXT),
    sa.tuple_(*_POSITION) > sa.tuple_(sa.bindparam("resource"), sa.bindparam("client_id")),
    FORMATS_TEXT.contains(sa.bindparam("folder")),
    limit=_LIMIT,
)
FIRST_ENTRIES = _read_of(ENTRY_COLUMNS, _OF_RESOURCE, limit=_LIMIT)
MORE_ENTRIES = _read_of(
    ENTRY_COLUMNS, _OF_RESOURCE, snapshot_files.c.client_id > sa.bindparam("client_id"), limit=_LIMIT
)
FINGERPRINTS = _read_of((snapshot_files.c.client_id, snapshot_files.c.fingerprint), _OF_RESOURCE)


def entry_of(row: Sequence[Any]) -> ManifestEntry:
    """Return the entry of a row of ENTRY_COLUMNS."""
    client_id, resource, rows, fingerprint, formats = row
    return ManifestEntry(client_id, resource, rows, fingerprint, FORMATS.decode(formats))


def table_of(row: Sequence[Any]) -> TableFiles | None:
    """Return the table of a row of `ManifestStore.table`, None without Parquet files with statistics."""
    snapshot_id, as_of, published_at, version, rows, formats, _replaced_at, columns = row
    stored = None if formats is None else FORMATS.decode(formats).get(PARQUET)
    if stored is None or stored.statistics is None:
        return None
    return TableFiles(snapshot_id, as_of, published_at, version, rows, stored, columns)


def as_replaced(connection: sa.Connection, snapshot_id: str, entry: ManifestEntry, now: datetime) -> ManifestEntry:
    """Return an entry of an erasure with the time of the replacement in all files, if its snapshot is published."""
    version = connection.execute(sa.select(snapshots.c.version).where(snapshots.c.snapshot_id == snapshot_id)).scalar()
    if version is None:
        return entry
    since = Since(version, now, version)
    formats = {name: structs.replace(stored, since=since) for name, stored in entry.formats.items()}
    return structs.replace(entry, formats=formats)
